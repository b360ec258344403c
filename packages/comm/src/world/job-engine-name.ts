/** Engines that the ranks of a job can choose. */
export type JobEngineName = 'local' | 'gloo' | 'nccl';
