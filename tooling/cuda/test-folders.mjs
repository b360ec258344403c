/**
 * The packages with tests that need a GPU (`test/cuda`), in the order in which their tests run. A bundle
 * contains what these tests need. `step`: the name in run-on-gpu.mjs. `report`: the file with the results.
 * `weight`: the share of the time (see run-steps.mjs), which is larger for tests with several processes that
 * each open the GPU and make NCCL communicators.
 */
export const testFolders = [
  {
    folder: 'packages/kernels',
    step: 'operations against the reference',
    report: 'tests-kernels.json',
    weight: 2,
  },
  {
    folder: 'packages/runs',
    step: 'steps of training runs, with graphs and without',
    report: 'tests-steps.json',
    weight: 2,
  },
  {
    folder: 'packages/planning',
    step: 'memory and matmuls of training runs, as dry runs find them',
    report: 'tests-plans.json',
    weight: 1,
  },
  {
    folder: 'apps/gpt-train',
    step: 'training runs against PyTorch and the CPU, on one rank and several',
    report: 'tests-training.json',
    weight: 4,
  },
  {
    folder: 'packages/cli',
    step: 'what mtl doctor reports about the GPU',
    report: 'tests-doctor.json',
    weight: 0.5,
  },
  {
    folder: 'packages/comm',
    step: 'collectives of ranks on one GPU',
    report: 'tests-ranks.json',
    weight: 2,
  },
];
