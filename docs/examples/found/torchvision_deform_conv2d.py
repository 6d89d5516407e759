import torch, torchvision
image = torch.randn(1, 6, 9, 6, device="cuda", requires_grad=True)
offset = (torch.randn(1, 54, 5, 3, device="cuda") * 1e10).requires_grad_()
weight = torch.randn(4, 6, 3, 3, device="cuda", requires_grad=True)
torchvision.ops.deform_conv2d(image, offset, weight, stride=2, padding=1).sum().backward()
