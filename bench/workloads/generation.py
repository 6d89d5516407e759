"""Text is generated token by token: the cache of keys and values grows by one each time, and prompts have many lengths."""

import itertools

TITLE = "generation, 16 tokens"
PROMPTS = (17, 130, 64, 33, 201, 90)
WIDTH, HEADS, LAYERS, BATCH, TOKENS = 512, 8, 4, 4, 16


def build(torch):
    functional = torch.nn.functional
    layers = [(torch.nn.Linear(WIDTH, 3 * WIDTH).cuda(), torch.nn.Linear(WIDTH, WIDTH).cuda()) for _ in range(LAYERS)]
    lengths = itertools.cycle(PROMPTS)

    def attend(hidden, layer, cache):
        into, out = layer
        query, key, value = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in into(hidden).chunk(3, 2))
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        return hidden + out(seen.transpose(1, 2).flatten(2)), (key, value)

    def step():
        with torch.inference_mode():
            hidden, caches = torch.randn(BATCH, next(lengths), WIDTH, device="cuda"), [None] * LAYERS
            for _ in range(TOKENS):
                for number, layer in enumerate(layers):
                    hidden, caches[number] = attend(hidden, layer, caches[number])
                hidden = hidden[:, -1:]

    return step
