import type { StepBreakdown } from '@mtl/planner';

/** What the parts of a step are called. */
export const nameOfPart: Readonly<Record<keyof StepBreakdown, string>> = {
  matmuls: 'matmuls',
  attention: 'attention',
  kernels: 'other kernels',
  tensorCommunication: 'exposed tensor communication',
  contextCommunication: 'exposed context communication',
  expertCommunication: 'exposed expert communication',
  pipelineCommunication: 'exposed pipeline communication',
  dataCommunication: 'exposed data communication',
  bubble: 'bubble',
  optimizer: 'optimizer',
  host: 'waiting for the host',
};
