/*
 * The perceptron, compiled by AOTInductor (aoti.py) and run by a program of C++ that knows nothing of cufence: aoti PACKAGE. It
 * answers as bench/worker.py does.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Type.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <chrono>
#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>

static double take(torch::inductor::AOTIModelPackageLoader &model, const at::Tensor &data, int steps)
{
    model.run({data});
    torch::cuda::synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; i++)
        model.run({data});
    torch::cuda::synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int main(int, char **argv)
{
    try {
        const c10::InferenceMode without_gradients;
        torch::inductor::AOTIModelPackageLoader model(argv[1]);
        const at::Tensor data = torch::randn({256, 1024}, torch::kCUDA);
        std::string request;
        c10::cuda::CUDACachingAllocator::CUDAAllocator &allocator = *c10::cuda::CUDACachingAllocator::get();
        std::cout << "bench> {\"class\": \"" << c10::demangle(typeid(allocator).name()) << "\"}" << std::endl;
        while (std::cin >> request) {
            std::string argument;
            std::cin >> argument;
            if (request == "warm")
                std::cout << "bench> {\"probe\": " << take(model, data, 1) << "}" << std::endl;
            else if (request == "pin")
                std::cout << "bench> []" << std::endl;
            else
                std::cout << "bench> " << take(model, data, std::stoi(argument)) << std::endl;
        }
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "aoti: " << error.what() << std::endl;
        return 1;
    }
}
