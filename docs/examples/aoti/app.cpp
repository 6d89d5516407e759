/*
 * Runs a model that AOTInductor has compiled (compile_models.py).
 *
 *   aoti_app [--api] [--weights FILE] PACKAGE COUNT
 *
 *   --api           puts cufence under libtorch itself; without it the program knows nothing of cufence (`cufence run`)
 *   --weights FILE  loads the weights from FILE, each into a buffer of its own, and lets the model use them in place
 *   COUNT           floats of the input, all 1
 *
 * Status: 0 and a line with the result, 1 and the reason.
 */
#include "cufence_torch.hpp"

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

struct arguments {
    bool has_api = false;
    std::string weights;
    std::string package;
    long count = 0;
};

static arguments parse(int argc, char **argv)
{
    arguments result;
    int next = 1;
    for (; next < argc && std::strncmp(argv[next], "--", 2) == 0; next++) {
        if (std::strcmp(argv[next], "--api") == 0)
            result.has_api = true;
        else if (std::strcmp(argv[next], "--weights") == 0 && next + 1 < argc)
            result.weights = argv[++next];
        else
            throw std::invalid_argument(std::string("unknown option ") + argv[next]);
    }
    if (argc - next != 2)
        throw std::invalid_argument("usage: aoti_app [--api] [--weights FILE] PACKAGE COUNT");
    result.package = argv[next];
    result.count = std::strtol(argv[next + 1], nullptr, 10);
    if (result.count < 1)
        throw std::invalid_argument(std::string("COUNT is a number from 1, not ") + argv[next + 1]);
    return result;
}

/* One tensor, and so one buffer, for each weight. */
static std::unordered_map<std::string, at::Tensor> load_weights(const std::string &file)
{
    std::ifstream stream(file, std::ios::binary);
    if (!stream)
        throw std::runtime_error("cannot read " + file);
    std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    std::unordered_map<std::string, at::Tensor> weights;
    for (const auto &entry : torch::pickle_load(bytes).toGenericDict())
        weights[entry.key().toStringRef()] = entry.value().toTensor().to(torch::kCUDA);
    return weights;
}

/* The wait during which the driver writes a core dump returns success: only cufence knows then. `cufence run` sees to it
 * that the wait itself fails. */
static void check_faults()
{
    if (cufence_wait_reports(10000) != CUFENCE_OK)
        throw std::runtime_error(cufence_error_detail());
    if (cufence_fault_count() > 0)
        throw std::runtime_error("a kernel has faulted: the report stands above");
}

static void run(const arguments &given)
{
    if (given.has_api)
        cufence_torch::install(nullptr);
    std::unordered_map<std::string, at::Tensor> weights;
    torch::inductor::AOTIModelPackageLoader model(given.package);
    if (!given.weights.empty()) {
        weights = load_weights(given.weights);
        /* Not the other buffer of constants, all of them at once, and used where they lie. */
        model.load_constants(weights, false, true, true);
    }
    std::vector<at::Tensor> outputs = model.run({torch::ones({given.count}, torch::kCUDA)});
    torch::cuda::synchronize();
    if (given.has_api)
        check_faults();
    std::cout << "sum " << outputs.at(0).sum().item<double>() << std::endl;
}

int main(int argc, char **argv)
{
    try {
        run(parse(argc, argv));
        return 0;
    } catch (const c10::Error &error) {
        std::cerr << "aoti_app: " << error.what_without_backtrace() << std::endl;
        return 1;
    } catch (const std::exception &error) {
        std::cerr << "aoti_app: " << error.what() << std::endl;
        return 1;
    }
}
