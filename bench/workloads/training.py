"""A transformer encoder of 6 layers, trained with AdamW: its host is as busy as its GPU."""

TITLE = "training step"


def build(torch):
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data, target = torch.randn(16, 128, 512, device="cuda"), torch.randn(16, 128, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(data), target).backward()
        optimizer.step()

    return step
