/** The contents of a console line about the steps since the previous line. */
export interface IntervalMetrics {
  readonly iteration: number;
  readonly trainIterations: number;
  readonly consumedSamples: number;
  readonly globalBatchSize: number;
  /** Mean over the steps of the interval. */
  readonly stepMs: number;
  readonly learningRate: number;
  /** As in `StepMetrics`. */
  readonly decoupledLearningRate?: number | undefined;
  /** Losses by the name they are printed with, each a mean over the steps that were not skipped. */
  readonly losses: Readonly<Record<string, number>>;
  readonly lossScale: number;
  readonly gradNorm: number;
  readonly numSkipped: number;
  readonly numNan: number;
  readonly tokensPerSecond: number;
  readonly modelTflops: number;
}
