import type { TrainingReporter } from '@mtl/trainer';

/** Tells of every so many steps in a line each. */
export function stepReporter(options: {
  readonly stepsPerEpoch: number;
  readonly epochs: number;
  readonly logInterval: number;
  readonly onMessage: (text: string) => void;
}): TrainingReporter {
  const { stepsPerEpoch, epochs, logInterval, onMessage } = options;
  const numSteps = stepsPerEpoch * epochs;
  let samples = 0;
  let milliseconds = 0;
  let losses: number[] = [];
  return {
    step: (step) => {
      samples += step.globalBatchSize;
      milliseconds += step.stepMs;
      losses.push(step.loss);
      if (step.iteration % logInterval !== 0 && step.iteration !== numSteps) return;
      const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
      const epoch = Math.ceil(step.iteration / stepsPerEpoch);
      onMessage(
        `step ${step.iteration}/${numSteps} (epoch ${epoch}/${epochs}) | loss ${mean.toFixed(4)} | ` +
          `learning rate ${step.learningRate.toExponential(3)} | grad norm ${step.gradNorm.toFixed(3)} | ` +
          `${((samples * 1000) / milliseconds).toFixed(1)} samples/s`,
      );
      [samples, milliseconds, losses] = [0, 0, []];
    },
    message: onMessage,
  };
}
