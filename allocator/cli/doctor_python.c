/* Checks Python's packages and the variables that choose their allocators. */
#include "doctor.h"
#include "environment.h"

#include <cufence.h>

#include <stdio.h>
#include <string.h>

#define PATIENCE 20 /* seconds; network file systems are slow */
#define TESTED "2.11"

enum { OLDEST_TORCH = 2, OLDEST_CUDA = 1104 }; /* major; major * 100 + minor: what backend:cudaMallocAsync needs */

/* Imports only cufence, which is quick: PyTorch alone would take seconds. */
static const char script[] =
    "import sys\n"
    "sys.path[:] = [folder for folder in sys.path if folder]\n"
    "import importlib.metadata, importlib.util, json, os, re\n"
    "facts = {'version': '.'.join(map(str, sys.version_info[:3])), 'executable': sys.executable, 'packages': {}}\n"
    "for name in ('torch triton jax jaxlib jax-cuda12-plugin jax-cuda13-plugin cupy cupy-cuda11x cupy-cuda12x cupy-cuda13x '\n"
    "             'tensorflow rmm rmm-cu11 rmm-cu12 rmm-cu13 cufence').split():\n"
    "    try:\n"
    "        facts['packages'][name] = importlib.metadata.version(name)\n"
    "    except importlib.metadata.PackageNotFoundError:\n"
    "        pass\n"
    "spec = importlib.util.find_spec('torch') if 'torch' in facts['packages'] else None\n"
    "if spec and spec.origin:\n"
    "    with open(os.path.join(os.path.dirname(spec.origin), 'version.py')) as file:\n"
    "        found = re.search(r\"^cuda\\b.*=\\s*'([0-9.]+)'\", file.read(), re.M)\n"
    "    facts['torch_cuda'] = found[1] if found else ''\n"
    "facts['hook'] = any(os.path.exists(os.path.join(folder, 'cufence-startup.pth')) for folder in sys.path)\n"
    "try:\n"
    "    import cufence\n"
    "    facts['cufence'] = {'version': cufence.__version__, 'path': os.path.dirname(cufence.__file__)}\n"
    "except Exception as error:\n"
    "    facts['no_cufence'] = f'{type(error).__name__}: {error}'\n"
    "print(json.dumps(facts))\n";

void ask_python(struct python_trial *trial)
{
    static const char *const argv[] = {"python3", "-c", script, NULL};
    /* With these set, the start-up hook would re-execute the interpreter under the preload library. */
    static const char *const changes[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "LD_PRELOAD", "CUFENCE_OPTIONS",
                                          NULL};
    static struct child child;
    memset(trial, 0, sizeof *trial);
    child_run(argv, changes, PATIENCE, &child);
    const char *answer = strchr(child.out, '{');
    if (child.is_timed_out)
        snprintf(trial->problem, sizeof trial->problem, "python3 did not answer within %d s", PATIENCE);
    else if (answer)
        trial->facts = json_loads(answer, JSON_DISABLE_EOF_CHECK, NULL);
    if (!trial->facts && !trial->problem[0])
        snprintf(trial->problem, sizeof trial->problem, "python3: %.400s", child.error[0] ? child.error : "it said nothing");
}

static const char *text_at(json_t *facts, const char *key)
{
    return json_string_value(json_object_get(facts, key));
}

/* The version of a package, NULL if it is not there. Of several names the first that is there. */
static const char *package_version(json_t *facts, const char *const *names)
{
    json_t *packages = json_object_get(facts, "packages");
    for (size_t i = 0; names[i]; i++)
        if (text_at(packages, names[i]))
            return text_at(packages, names[i]);
    return NULL;
}

/* ---- cufence's own package ---- */

/* A missing package is a limit only if PyTorch is installed. */
static void judge_package(struct findings *findings, json_t *facts, int is_of_use)
{
    json_t *package = json_object_get(facts, "cufence");
    const char *version = text_at(package, "version"), *problem = text_at(facts, "no_cufence");
    enum verdict_mark missing = is_of_use ? FOUND_NO : FOUND_NEITHER;
    if (!version)
        found(findings, missing, "cufence package",
              is_of_use ? "pip install it there for backend:cufence; `cufence run` works without it" : NULL,
              "cannot be imported: %s", problem ? problem : "python3 does not say why");
    else if (strcmp(version, cufence_version_string()) != 0)
        found(findings, FOUND_NO, "cufence package", "install both from one source", "%s is version %s, this program is %s",
              text_at(package, "path"), version, cufence_version_string());
    else
        found(findings, FOUND_YES, "cufence package", NULL, "%s, %s", version, text_at(package, "path"));
    if (json_is_true(json_object_get(facts, "hook")))
        found(findings, FOUND_YES, "start-up hook", NULL, "cufence-startup.pth is in place: backend:cufence is enough");
    else
        found(findings, missing, "start-up hook",
              is_of_use ? "pip install cufence into this environment; `cufence run -- python3 ...` works without it" : NULL,
              "no cufence-startup.pth: PYTORCH_CUDA_ALLOC_CONF=backend:cufence would not be understood");
}

/* ---- PyTorch ---- */

/* Returns 1300 for "13.0"; 0 if `text` is no version. */
static int version_number(const char *text)
{
    int major = 0, minor = 0;
    return sscanf(text, "%d.%d", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static int has_prefix(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && (text[length] < '0' || text[length] > '9');
}

static void judge_torch(struct findings *findings, const char *torch, const char *cuda)
{
    if (!torch)
        found(findings, FOUND_NEITHER, "PyTorch", NULL, "not installed");
    else if (!cuda || !*cuda)
        found(findings, FOUND_NO, "PyTorch", "install a CUDA build: https://pytorch.org/get-started", "%s, built without CUDA",
              torch);
    else if (atoi(torch) < OLDEST_TORCH || version_number(cuda) < OLDEST_CUDA)
        found(findings, FOUND_NO, "PyTorch", "use PyTorch 2.0 or later, built with CUDA 11.4 or later",
              "%s with CUDA %s has no back end cudaMallocAsync, which cufence needs", torch, cuda);
    else if (!has_prefix(torch, TESTED))
        found(findings, FOUND_NO, "PyTorch", "if something goes wrong, compare with " TESTED,
              "%s with CUDA %s; tested is " TESTED, torch, cuda);
    else
        found(findings, FOUND_YES, "PyTorch", NULL, "%s with CUDA %s, which cufence is tested with", torch, cuda);
}

static void judge_allocator_settings(struct findings *findings, environment_lookup environment)
{
    const char *name = NULL;
    struct alloc_conf confs[ALLOC_CONFS];
    for (int i = 0; i < ALLOC_CONFS; i++) {
        const char *text = environment(alloc_conf_names[i]);
        name = text && *text ? alloc_conf_names[i] : name;
    }
    cufence_status status = alloc_conf_rewrite_both(environment, confs);
    const char *asking = status == CUFENCE_OK ? alloc_conf_asking(confs) : NULL;
    if (status != CUFENCE_OK)
        found(findings, FOUND_NO, "  settings", "correct the variable", "%s", cufence_error_detail());
    else if (!name)
        found(findings, FOUND_YES, "  settings", NULL,
              "no PYTORCH_*ALLOC_CONF is set; PYTORCH_CUDA_ALLOC_CONF=backend:cufence turns cufence on");
    else if (asking)
        found(findings, FOUND_YES, "  settings", NULL, "%s=%s asks for cufence", asking, environment(asking));
    else
        found(findings, FOUND_NEITHER, "  settings", NULL, "%s=%s; cufence takes the place of the back end and keeps the rest",
              name, environment(name));
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
}

/* ---- the others ---- */

static void judge_framework(struct findings *findings, json_t *facts, environment_lookup environment,
                            const struct framework *framework)
{
    const char *version = package_version(facts, (const char *const[]){framework->package, NULL});
    const char *chosen = environment(framework->variable);
    int is_chosen = chosen && *chosen && strcmp(chosen, framework->value) != 0;
    if (!version && !framework->allocator)
        found(findings, FOUND_NEITHER, framework->name, NULL, "not installed");
    else if (version && is_chosen)
        found(findings, FOUND_NO, framework->name, "unset it: `cufence run` and backend:cufence set what cufence needs",
              "%s: with %s=%s it %s", version, framework->variable, chosen, framework->loss);
    else if (version && !framework->allocator)
        found(findings, FOUND_YES, framework->name, NULL, "%s; it gets %s=%s", version, framework->variable, framework->value);
}

static void judge_cupy(struct findings *findings, json_t *facts)
{
    const char *version =
        package_version(facts, (const char *const[]){"cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", NULL});
    if (version)
        found(findings, FOUND_YES, "CuPy", NULL,
              "%s; its pool is switched off in programs that run under cufence, and only there", version);
    else
        found(findings, FOUND_NEITHER, "CuPy", NULL, "not installed");
}

void judge_python(struct findings *findings, const struct python_trial *trial, environment_lookup environment)
{
    findings_section(findings, "Python");
    json_t *facts = trial->facts;
    if (!facts) {
        found(findings, FOUND_NEITHER, "python3", NULL, "%s", trial->problem);
        return;
    }
    found(findings, FOUND_YES, "python3", NULL, "%s, %s", text_at(facts, "version"), text_at(facts, "executable"));
    const char *torch = package_version(facts, (const char *const[]){"torch", NULL});
    judge_package(findings, facts, torch != NULL);
    judge_torch(findings, torch, text_at(facts, "torch_cuda"));
    if (torch)
        judge_allocator_settings(findings, environment);
    for (size_t i = 0; i < FRAMEWORKS; i++)
        judge_framework(findings, facts, environment, &frameworks[i]);
    judge_cupy(findings, facts);
}

/* ---- what keeps overruns inside one allocation, where there is no guard ---- */

/* Inductor's settings and defaults are those of PyTorch 2.11, torch/_inductor/config.py. It takes only "1" for on. */
static const struct {
    const char *what;
    const char *variable;
    int is_on_by_default;
    const char *harm;
} inductor[] = {
    {"memory planning", "TORCHINDUCTOR_MEMORY_PLANNING", 0, "puts the intermediates of a graph into one allocation"},
    {"stride padding", "TORCHINDUCTOR_COMPREHENSIVE_PADDING", 1,
     "makes rows of large tensors longer than asked for, so that they end in bytes that belong to the tensor"},
    {"shape padding", "TORCHINDUCTOR_SHAPE_PADDING", 1,
     "pads the operands of a matmul, which then end after their last element"},
    {"in-place padding", "TORCHINDUCTOR_INPLACE_PADDING", 1, "leaves room after a tensor to pad it in place"},
};

static void judge_inductor(struct findings *findings, environment_lookup environment)
{
    char remedy[64];
    for (size_t i = 0; i < sizeof inductor / sizeof *inductor; i++) {
        const char *value = environment(inductor[i].variable);
        if (value ? strcmp(value, "1") != 0 : !inductor[i].is_on_by_default)
            continue;
        snprintf(remedy, sizeof remedy, "%s=0", inductor[i].variable);
        found(findings, FOUND_NO, inductor[i].what, remedy, "torch.compile %s (%s)", inductor[i].harm,
              value ? "it is switched on" : "the default");
    }
    found(findings, FOUND_NO, "buffer reuse", "torch._inductor.config.allow_buffer_reuse = False, and inplace_buffers = False",
          "torch.compile reuses a buffer that is done for another tensor of the graph, which may be smaller (the default)");
}

void judge_hidden(struct findings *findings, json_t *facts, environment_lookup environment)
{
    const char *rmm = package_version(facts, (const char *const[]){"rmm", "rmm-cu13", "rmm-cu12", "rmm-cu11", NULL});
    const char *torch = package_version(facts, (const char *const[]){"torch", NULL});
    if (torch || rmm)
        findings_section(findings, "what hides overruns inside one allocation");
    if (torch)
        judge_inductor(findings, environment);
    if (rmm)
        found(findings, FOUND_NO, "RMM", "rmm.reinitialize(pool_allocator=False), and no pool in C++",
              "%s: a pool of RMM's is one buffer to cufence", rmm);
}
