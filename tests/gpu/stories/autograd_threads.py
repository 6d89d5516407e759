"""Backward passes on autograd's threads, started by four Python threads, each with its own stream."""

import threading

import torch

torch.manual_seed(9)
reference = torch.nn.Sequential(torch.nn.Linear(65, 129), torch.nn.Tanh(), torch.nn.Linear(129, 3)).cuda()
inputs = [torch.randn(17 + index, 65, device="cuda") for index in range(4)]


def gradients(data):
    grads = torch.autograd.grad(reference(data).square().sum(), tuple(reference.parameters()))
    return [grad.clone() for grad in grads]


expected = [gradients(data) for data in inputs]
torch.cuda.synchronize()
errors = []


def work(index):
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(100):
                for found, right in zip(gradients(inputs[index]), expected[index], strict=True):
                    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
        stream.synchronize()
    except BaseException as error:
        errors.append(error)


threads = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if errors:
    raise errors[0]
print("400 backward passes are right")
