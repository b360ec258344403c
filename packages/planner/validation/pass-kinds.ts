/** Kinds of the breakdown, in the order of the table. */
export const passKinds = [
  'matmuls',
  'attention',
  'kernels',
  'host',
  'tensorCommunication',
  'pipelineCommunication',
  'dataCommunication',
  'bubble',
  'optimizer',
] as const;
