/** The progress of a training run: what a checkpoint must restore in addition to tensors. */
export interface TrainingProgress {
  readonly iteration: number;
  readonly consumedSamples: number;
  readonly consumedTokens: number;
}
