"""A training step of ResNet-50 of torchvision on 32 pictures, with SGD and momentum."""

import importlib.util

TITLE = "ResNet-50, 32 pictures"


def why_not(torch):
    return None if importlib.util.find_spec("torchvision") else "torchvision is not installed"


def build(torch, between=lambda: None, pictures=32):
    """between: called between forward and backward pass."""
    from torchvision.models import resnet50

    model = resnet50().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, classes = torch.randn(pictures, 3, 224, 224, device="cuda"), torch.randint(1000, (pictures,), device="cuda")

    def step():
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        between()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
