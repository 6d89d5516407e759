"""A loop bound by its launches, with an allocation for each."""

TITLE = "100 small operations"


def build(torch):
    few = torch.randn(1000, device="cuda")

    def step():
        value = few
        for _ in range(50):
            value = value * 0.5
            value = value + few

    return step
