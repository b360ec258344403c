import type { FineTuningTaskName } from './fine-tuning-configuration.js';

/** The hyper-parameters that Shoeybi et al. 2019 varied between tasks and models. */
interface FineTuningPreset {
  readonly globalBatchSize: number;
  readonly learningRate: number;
  readonly epochs: number;
}

/** The name of a row in the paper's table; SQuAD has one row for each version. */
type FineTuningPresetTask = Exclude<FineTuningTaskName, 'squad'> | 'squad-1.1' | 'squad-2.0';

type Row = readonly [globalBatchSize: number, learningRate: number, epochs: number];

// Shoeybi et al. 2019, table 6
const rows: Readonly<Record<FineTuningPresetTask, readonly [Row, Row, Row]>> = {
  mnli: [
    [128, 1e-5, 10],
    [128, 1e-5, 10],
    [128, 1e-5, 10],
  ],
  qqp: [
    [128, 5e-5, 12],
    [128, 3e-5, 12],
    [256, 4e-5, 12],
  ],
  'squad-1.1': [
    [64, 3e-5, 2],
    [48, 3e-5, 2],
    [48, 1e-5, 2],
  ],
  'squad-2.0': [
    [48, 3e-5, 2],
    [64, 3e-5, 2],
    [48, 1e-5, 2],
  ],
  race: [
    [32, 2e-5, 3],
    [16, 1e-5, 3],
    [32, 2e-5, 3],
  ],
};

/** The models of the paper's table 6. */
export const fineTuningPresetNames = ['megatron-336m', 'megatron-1.3b', 'megatron-3.9b'] as const;
type FineTuningPresetName = (typeof fineTuningPresetNames)[number];

/** Returns the settings with which the paper fine-tuned a model (Shoeybi et al. 2019, table 6). */
export function fineTuningPreset(name: FineTuningPresetName, task: FineTuningPresetTask): FineTuningPreset {
  const [globalBatchSize, learningRate, epochs] = rows[task][fineTuningPresetNames.indexOf(name)]!;
  return { globalBatchSize, learningRate, epochs };
}
