"""What `./dev bench` trains to see how much memory it takes: MODELS has each one's constructor and its steps.

`small`: 10,000 parameters of 1 to 64 KiB with gradients and Adam's state. `gpt2`: a transformer of GPT-2's sizes (124 million
parameters, 12 layers of width 768, 4 sequences of 1,024 tokens) with AdamW.
"""


def small(torch):
    """Returns the forward pass, which gives the loss, and its optimizer."""
    parameters = [torch.nn.Parameter(torch.randn(256 + i * 7919 % 16128, device="cuda")) for i in range(10000)]
    optimizer = torch.optim.Adam(parameters, foreach=False)
    return lambda: sum((parameter * parameter).mean() for parameter in parameters), optimizer


def gpt2(torch):
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
    blocks = torch.nn.TransformerEncoder(layer, 12, torch.nn.LayerNorm(768), enable_nested_tensor=False).cuda()
    words, positions = torch.nn.Embedding(50257, 768).cuda(), torch.nn.Embedding(1024, 768).cuda()
    tokens = torch.randint(50257, (4, 1024), device="cuda")
    places = torch.arange(1024, device="cuda")
    mask = torch.nn.Transformer.generate_square_subsequent_mask(1024, device="cuda")
    optimizer = torch.optim.AdamW([*blocks.parameters(), *words.parameters(), *positions.parameters()], lr=1e-4)

    def forward():
        hidden = blocks(words(tokens) + positions(places), mask=mask, is_causal=True)
        logits = hidden @ words.weight.T  # the output layer shares the words' weights
        return torch.nn.functional.cross_entropy(logits.view(-1, 50257), tokens.view(-1))

    return forward, optimizer


MODELS = {"gpt2": (gpt2, 3), "small": (small, 2)}
