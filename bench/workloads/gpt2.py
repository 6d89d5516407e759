"""A training step of GPT-2 of transformers, as trainers take it: bfloat16 autocast, gradient clipping, AdamW. Random weights and tokens."""

import importlib.util

TITLE = "GPT-2, 8 x 512"
LAYERS, BATCH, TOKENS = 12, 8, 512


def why_not(torch):
    return None if importlib.util.find_spec("transformers") else "transformers is not installed"


def build(torch, between=lambda: None, sizes=(LAYERS, BATCH, TOKENS)):
    """between: called between forward and backward pass."""
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, batch, length = sizes
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers)).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(model.config.vocab_size, (batch, length), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        between()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
