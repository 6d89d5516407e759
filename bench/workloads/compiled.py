"""The perceptron through torch.compile."""

from inference import model_of

TITLE = "torch.compile"


def build(torch):
    model, data = torch.compile(model_of(torch, 1024, 8)), torch.randn(256, 1024, device="cuda")

    def step():
        with torch.inference_mode():
            model(data)

    return step
