#!/usr/bin/env python3
"""As torch_allocator.py: CUDA graphs, checkpoints of their pools, torch.compile's graph trees, a loader with pinned memory."""

from __future__ import annotations

import gc
import unittest

from torch_allocator import DEVICE, Case, int8  # enables cufence, with --enable

import torch
from torch._inductor.cudagraph_trees import get_cudagraph_segments


def graph_of(function, inputs=(), pool=None):
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function(*inputs)
    stream.synchronize()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, pool=pool):
        outputs = function(*inputs)
    return graph, outputs


def live_blocks(pool) -> int:
    return sum(block["state"] == "active_allocated" for segment in get_cudagraph_segments(pool) for block in segment["blocks"])


class Graphs(Case):
    def test_replay(self) -> None:
        given = torch.ones(1000, device=DEVICE)
        graph, out = graph_of(lambda x: (x * 2 + 1).sum(), [given])
        for value in (1.0, 3.0):
            given.fill_(value)
            graph.replay()
            self.assertEqual(out.item(), 1000 * (value * 2 + 1))

    def test_shared_pool(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        given = torch.zeros(1000, device=DEVICE)
        first, out = graph_of(lambda x: x + 1, [given], pool)
        second, after = graph_of(lambda x: x * 10, [out], pool)
        self.assertEqual(first.pool(), second.pool())
        first.replay()
        second.replay()
        self.assertEqual(after.sum().item(), 10000)
        del first, second, out, after
        gc.collect()
        torch.cuda.empty_cache()
        self.assertEqual(get_cudagraph_segments(pool), [])

    def test_memory_outlives_the_graph(self) -> None:
        graph, out = graph_of(lambda: torch.full((1000,), 7.0, device=DEVICE))
        graph.replay()
        graph.reset()
        del graph
        torch.cuda.empty_cache()
        for _ in range(10):
            torch.full((1000,), 8.0, device=DEVICE)
        self.assertEqual(out.sum().item(), 7000)

    def test_graphed_callables(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
        data = torch.randn(16, 64, device=DEVICE)
        expected = model(data).detach()
        graphed = torch.cuda.make_graphed_callables(model, (data.clone(),))
        result = graphed(data)
        result.sum().backward()
        self.assertTrue(torch.allclose(result, expected, atol=1e-5))

    def test_side_streams_while_capturing(self) -> None:
        def work():
            side = torch.cuda.Stream()
            x = torch.ones(1000, device=DEVICE)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x * 2
            x.record_stream(side)
            torch.cuda.current_stream().wait_stream(side)
            return y + 1

        graph, out = graph_of(work)
        graph.replay()
        self.assertEqual(out.sum().item(), 3000)


class Checkpoints(Case):
    def restore(self, state, stale=(), owners=()) -> None:
        torch._C._cuda_setCheckpointPoolState(
            0,
            state,
            [tensor.untyped_storage()._cdata for tensor in stale],
            [tensor.untyped_storage()._cdata for tensor in owners],
        )

    def check_same(self, before, after) -> None:
        by_address = {segment["address"]: segment for segment in after}
        for segment in before:
            now = by_address[segment["address"]]
            for field in ("device", "total_size", "allocated_size", "active_size", "segment_type", "segment_pool_id"):
                self.assertEqual(segment[field], now[field], field)
            blocks, others = ([(block["size"], block["state"]) for block in of["blocks"]] for of in (segment, now))
            self.assertEqual(blocks, others)

    def check(self, function, inputs=(), pool=None):
        graph, outputs = graph_of(function, inputs, pool)
        before = get_cudagraph_segments(graph.pool())
        self.restore(torch._C._cuda_getCheckpointState(0, graph.pool()))
        self.check_same(before, get_cudagraph_segments(graph.pool()))
        return graph, outputs

    def test_simple(self) -> None:
        self.check(lambda: int8(512) * int8(512))

    def test_middle(self) -> None:
        def some():
            kept = int8(512)
            gone = [int8(600), int8(40 << 20)]
            del gone
            return kept, int8(1 << 20)

        graph, _outputs = self.check(some)
        self.check(some, pool=graph.pool())

    def test_tensor_dies_after_it(self) -> None:
        graph, outputs = graph_of(lambda: (int8(512), int8(512)))
        pool = graph.pool()
        state = torch._C._cuda_getCheckpointState(0, pool)
        addresses = [output.data_ptr() for output in outputs]
        del outputs
        self.restore(state)
        for left in (1, 0):
            torch._C._cuda_cudaCachingAllocator_raw_delete(addresses[left])
            self.assertEqual(live_blocks(pool), left)

    def test_owners(self) -> None:
        given = torch.tensor([1], device=DEVICE)
        graph, outputs = graph_of(lambda x: (int8(1000) + x, int8(1000) + x, int8(30 << 20) + x), [given])
        pool = graph.pool()
        graph.replay()
        state = torch._C._cuda_getCheckpointState(0, pool)
        known = [
            (out.untyped_storage().data_ptr(), out.untyped_storage().nbytes(), out.size(), out.stride(), out.dtype)
            for out in outputs
        ]
        self.assertEqual(live_blocks(pool), 3)
        del outputs
        self.assertEqual(live_blocks(pool), 0)

        def rebuilt(address, size, shape, stride, dtype):
            storage = torch._C._construct_storage_from_data_pointer(address, DEVICE, size)
            return torch.empty([0], device=DEVICE, dtype=dtype).set_(
                source=storage, storage_offset=0, size=shape, stride=stride
            )

        again = [rebuilt(*each) for each in known]
        given.add_(1)
        graph.replay()
        for tensor in again:
            self.assertTrue(bool((tensor == 3).all()))
        self.restore(state, [], again[:2])
        for index, left in ((0, 2), (1, 1), (2, 1)):
            again[index] = None
            self.assertEqual(live_blocks(pool), left)
        torch._C._cuda_cudaCachingAllocator_raw_delete(known[2][0])
        self.assertEqual(live_blocks(pool), 0)

    def test_live_ones(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        _graph, out = graph_of(lambda: torch.ones(4, device=DEVICE), pool=pool)

        def check(live: set) -> bool:
            return torch._C._cuda_checkPoolLiveAllocations(0, pool, live)

        self.assertTrue(check({out.data_ptr()}))
        self.assertFalse(check({out.data_ptr(), 0}))
        self.assertFalse(check(set()))
        del out
        self.assertTrue(check(set()))

    def test_later_graph(self) -> None:
        graph, _outputs = graph_of(lambda: (int8(512),))
        state = torch._C._cuda_getCheckpointState(0, graph.pool())
        _second, _others = graph_of(lambda: (int8(512),), pool=graph.pool())
        with self.assertRaisesRegex(Exception, "being manually freed must be passed"):
            self.restore(state)

    def test_later_graph_told(self) -> None:
        graph, _outputs = graph_of(lambda: (int8(512),))
        before = get_cudagraph_segments(graph.pool())
        state = torch._C._cuda_getCheckpointState(0, graph.pool())
        _second, others = graph_of(lambda: (int8(512),), pool=graph.pool())
        self.restore(state, others)
        del others
        self.check_same(before, get_cudagraph_segments(graph.pool()))


class Trees(Case):
    def compiled(self, function):
        return torch.compile(function, mode="reduce-overhead")

    def test_inference(self) -> None:
        from torch._dynamo.utils import counters

        counters.clear()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
        fast = self.compiled(model)
        with torch.inference_mode():
            for _ in range(6):
                data = torch.randn(32, 64, device=DEVICE)
                torch.compiler.cudagraph_mark_step_begin()
                self.assertTrue(torch.allclose(fast(data), model(data), atol=1e-4))
        self.assertEqual(counters["inductor"]["cudagraph_skips"], 0)
        manager = torch._inductor.cudagraph_trees.get_container(0).tree_manager
        self.assertIsNotNone(manager)
        self.assertGreater(len(list(manager.get_roots())), 0, "a graph was recorded")

    def test_training(self) -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
        fast = self.compiled(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        data = torch.randn(128, 64, device=DEVICE)
        losses = []
        for _ in range(12):
            torch.compiler.cudagraph_mark_step_begin()
            loss = (fast(data) - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] * 0.9)

    def test_branches(self) -> None:
        """Two paths from one node: the second is recorded after a checkpoint is restored."""
        first, second, third = (
            self.compiled(function) for function in (lambda x: x * x + 1, lambda x: x.sin() + 2, lambda x: x.cos() - 3)
        )
        for _ in range(4):
            for after, reference in ((second, lambda x: x.sin() + 2), (third, lambda x: x.cos() - 3)):
                torch.compiler.cudagraph_mark_step_begin()
                data = torch.randn(1 << 16, device=DEVICE)
                middle = first(data)
                result = after(middle)
                self.assertTrue(torch.allclose(result, reference(data * data + 1), atol=1e-4))
                self.assertTrue(torch.allclose(middle, data * data + 1, atol=1e-5), "what lives on is not written")
                del middle, result


class Data(Case):
    def test_pinned_loader(self) -> None:
        data = torch.utils.data.TensorDataset(torch.arange(256).float())
        total = 0.0
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True):
            total += batch.to(DEVICE, non_blocking=True).sum().item()
        self.assertEqual(total, 255 * 128)


if __name__ == "__main__":
    unittest.main()
