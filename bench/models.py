"""What `./dev bench` trains to see how much memory it takes: MODELS has each one's constructor and its steps.

`small`: 10,000 parameters of 1 to 64 KiB with gradients and Adam's state. `gpt2`: a transformer of GPT-2's sizes (124 million
parameters, 12 layers of width 768, 4 sequences of 1,024 tokens) with AdamW. `resnet50`: a network of ResNet-50's sizes (25.6 million
parameters) on 32 pictures of 224 by 224, with SGD and momentum.
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


def resnet50(torch):
    nn = torch.nn

    def convolution(inner, outer, width, stride=1):
        return nn.Sequential(nn.Conv2d(inner, outer, width, stride, width // 2, bias=False), nn.BatchNorm2d(outer))

    class Bottleneck(nn.Module):
        def __init__(self, inner, middle, stride):
            super().__init__()
            self.body = nn.Sequential(convolution(inner, middle, 1), nn.ReLU(True), convolution(middle, middle, 3, stride), nn.ReLU(True),
                                      convolution(middle, 4 * middle, 1))  # fmt: skip
            self.shortcut = nn.Identity() if inner == 4 * middle else convolution(inner, 4 * middle, 1, stride)

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)

    layers, width = [convolution(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
    for number, count in enumerate((3, 4, 6, 3)):
        for index in range(count):
            layers.append(Bottleneck(width, 64 << number, 2 if number and not index else 1))
            width = 256 << number
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)).cuda()
    pictures, labels = torch.randn(32, 3, 224, 224, device="cuda"), torch.randint(1000, (32,), device="cuda")
    return lambda: nn.functional.cross_entropy(model(pictures), labels), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


MODELS = {"gpt2": (gpt2, 3), "resnet50": (resnet50, 3), "small": (small, 2)}
