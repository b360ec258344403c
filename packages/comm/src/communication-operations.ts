import type { CommunicationOperation } from './process-group.js';

/** In the order of their native numbers (native/core/operation.h). */
export const communicationOperations: readonly CommunicationOperation[] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast'] as const),
  ...(['allToAll', 'send', 'receive', 'barrier'] as const),
];
