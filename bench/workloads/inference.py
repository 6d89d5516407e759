"""A perceptron of 12 layers, without gradients: short kernels, an allocation for each."""

TITLE = "MLP inference"


def model_of(torch, width=2048, layers=12):
    torch.manual_seed(1)
    return torch.nn.Sequential(*[part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]).cuda().eval()


def build(torch):
    model, data = model_of(torch), torch.randn(256, 2048, device="cuda")

    def step():
        with torch.inference_mode():
            model(data)

    return step
