"""A convolution net with batch normalisation, forward and backward: cuDNN, and its workspaces."""

TITLE = "convolution net"


def build(torch):
    nn, layers, width = torch.nn, [], 3
    for to, stride in ((64, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 2)):
        layers += [nn.Conv2d(width, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to), nn.ReLU()]
        width = to
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, classes = torch.randn(32, 3, 96, 96, device="cuda"), torch.randint(100, (32,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()

    return step
