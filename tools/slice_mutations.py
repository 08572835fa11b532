#!/usr/bin/env python3
"""Omits or swaps a sum where ranks share layers, and prints which test fails. Every mutation must make a test
fail.

Builds parallel_tests once per mutation and restores the source. Commit the tree before.
usage: slice_mutations.py BUILD JOBS [NAME...]        exit 1: a mutation that no test finds
"""
import pathlib
import re
import subprocess
import sys

SHARED = 'src/parallel/shared_weights.cpp'
TESTS = 'SlicedMatrixTest.*:UnevenRowsTest.*:ParallelizeModuleTest.*:SameCallsTest.*:*SlicedFamiliesTest.*:ParallelLayersTest.*:ParallelCrossEntropyTest.*'

# name, file, text to replace (occurs once), replacement
MUTATIONS = [
    ('the gradient of a norm under sequence parallelism', SHARED,
     'of_weight = blocks.sum(sums).to', 'of_weight = tree_sum(sums).to'),
    ('the gradient of a bias under sequence parallelism', SHARED,
     'return blocks.sum(sums);', 'return tree_sum(sums);'),
    ('the gradients of the norms of heads', 'src/model/modules.cpp',
     'const std::vector<at::Tensor> weights = copy_to(weight_, tp_);\n  std::vector<at::Tensor> results;\n'
     '  for (std::size_t i = 0; i < parts.size(); ++i)\n    results.push_back(normed(',
     'const std::vector<at::Tensor> weights(parts.size(), weight_);\n  std::vector<at::Tensor> results;\n'
     '  for (std::size_t i = 0; i < parts.size(); ++i)\n    results.push_back(normed('),
    ('the slices that draw for dropout of columns', 'src/parallel/divided_weights.cpp',
     'slice_sizes(length, tp_.slices()),\n                        tp_.slices().begin);',
     'slice_sizes(length, tp_.slices()), 0);'),
    ('the gradient of a tied head', 'src/train/tied_sums.cpp', 'if (!parameter.group) return;', 'return;'),
    ('the gradient of what enters a layer', 'src/parallel/mappings.cpp', ': detail::tree_all_reduce(own, tp),\n            {},',
     ': own,\n            {},'),
    ('the gradient of what enters a layer, under sequence parallelism', 'src/parallel/mappings.cpp',
     '? detail::tree_reduce_scatter(own, tp.sequence_dim(), tp)\n                : detail::tree_all_reduce(own, tp),\n            {},',
     '? detail::part_of(own, tp.sequence_dim(), tp.range(own.size(tp.sequence_dim())))\n'
     '                : detail::tree_all_reduce(own, tp),\n            {},'),
    ('the sum of exponentials of the loss', 'src/parallel/parallel_cross_entropy.cpp',
     'const at::Tensor both = detail::tree_all_reduce(\n        at::stack({detail::tree_sum(totals), detail::tree_sum(chosen)}), tp);',
     'const at::Tensor both = at::stack({detail::tree_sum(totals), detail::tree_sum(chosen)});'),
    ('that losses and their count are those of one share', 'src/train/step_end.cpp',
     'rank_.groups.is_first_share() ? executor_ : nullptr', 'executor_'),
    ('that the norm counts once what all shares hold', 'src/train/step_norm.cpp',
     '(parameter.is_divided || groups.is_first_share())', 'true'),
    ('the order of a sum over ranks', 'src/parallel/tree_exchange.cpp',
     'all_reduce(own, SumOrder::kTree)', 'all_reduce(own, SumOrder::kMembers)'),
    ('two sums of one call, swapped on a rank', SHARED,
     'if (wants_weight) of_weight = blocks.sum(of_weights);\n      if (wants_bias) of_bias = blocks.sum(of_biases);',
     'const bool odd = tp.group() && tp.group().rank() == 1;\n      if (odd && wants_bias) of_bias = blocks.sum(of_biases);\n'
     '      if (wants_weight) of_weight = blocks.sum(of_weights);\n      if (!odd && wants_bias) of_bias = blocks.sum(of_biases);'),
    ('two calls of a layer, swapped on a rank', 'src/model/decoder_layer.cpp',
     'if (q_norm_) q = q_norm_->forward_each(q), k = k_norm_->forward_each(k);',
     'const bool odd = tp_.group() && tp_.group().rank() == 1;\n'
     '    if (q_norm_ && odd) k = k_norm_->forward_each(k), q = q_norm_->forward_each(q);\n'
     '    if (q_norm_ && !odd) q = q_norm_->forward_each(q), k = k_norm_->forward_each(k);'),
    ('the number of a call in its layer', 'src/layer/call_place.cpp', '++place.num_calls', 'place.num_calls'),
    ('that rows of a length that the slices do not divide are whole', 'src/parallel/slice_group.cpp',
     '(*lengths)[dim] % slices_.count == 0', 'true'),
    ('the rows of other slices in a balance loss', 'src/model/experts.cpp',
     'const at::Tensor sum_2E = reduce_from(sums_2E, tp);', 'const at::Tensor& sum_2E = sums_2E.front();'),
    ('the gradients of experts of other slices', 'src/train/tied_sums.cpp',
     'sum = sum_in_tree(terms, value.device());', 'sum = terms.front();'),
    ('the end of the layers of a step', 'src/train/step_end.cpp', '  post_layer_barrier();\n', ''),
]


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def outcome(build, jobs):
    built = run('cmake', '--build', build, '-j', jobs, '--target', 'parallel_tests')
    if built.returncode:
        return None, built.stdout[-2000:]
    try:
        # A rank that waits in vain for a call gives up after 100 s.
        ran = run(f'{build}/bin/parallel_tests', '--gtest_fail_fast', f'--gtest_filter={TESTS}', timeout=900)
    except subprocess.TimeoutExpired:
        return 'no end in 900 s', ''
    failed = re.findall(r'\[  FAILED  \] ([\w/]+\.[\w/]+)', ran.stdout)
    if failed:
        return failed[0], ran.stdout
    return ('' if ran.returncode == 0 else f'exit {ran.returncode}'), ran.stdout


def main():
    build, jobs, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    if run('git', 'diff', '--quiet', 'HEAD').returncode:
        sys.exit('slice_mutations: commit first: sources are written over')
    missed = 0
    for name, file, old, new in MUTATIONS:
        if names and not any(part in name for part in names):
            continue
        path = pathlib.Path(file)
        source = path.read_text()
        if source.count(old) != 1:
            sys.exit(f'slice_mutations: {file} has the text of "{name}" {source.count(old)} times')
        path.write_text(source.replace(old, new))
        try:
            failed, text = outcome(build, jobs)
        finally:
            path.write_text(source)
        if failed is None:
            sys.exit(f'slice_mutations: "{name}" does not compile\n{text}')
        missed += not failed
        print(f'{name}: {failed or "NO TEST FAILS"}', flush=True)
    run('cmake', '--build', build, '-j', jobs, '--target', 'parallel_tests')
    sys.exit(missed > 0)


main()
