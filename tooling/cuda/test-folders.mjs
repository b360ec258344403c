/**
 * The packages with tests that want a card (`test/cuda`), in the order in which they run there; a bundle
 * holds what they need. `step` is what on-card.mjs calls them, `report` the file with their results, `weight`
 * how much longer they take than others (run-steps.mjs): processes that each open the card, and NCCL's
 * communicators.
 */
export const testFolders = [
  {
    folder: 'packages/kernels',
    step: 'operations against the reference',
    report: 'tests-kernels.json',
    weight: 2,
  },
  {
    folder: 'packages/recipes',
    step: 'steps of trainings, with graphs and without',
    report: 'tests-steps.json',
    weight: 2,
  },
  {
    folder: 'apps/gpt-train',
    step: 'trainings against PyTorch and the CPU, on one rank and several',
    report: 'tests-training.json',
    weight: 4,
  },
  {
    folder: 'packages/cli',
    step: 'what mtl doctor says of the card',
    report: 'tests-doctor.json',
    weight: 0.5,
  },
  {
    folder: 'packages/comm',
    step: 'collectives of ranks on one card',
    report: 'tests-ranks.json',
    weight: 2,
  },
];
