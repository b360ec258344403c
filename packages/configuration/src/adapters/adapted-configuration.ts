import type { LoraConfiguration } from '@mtl/formats';
import * as z from 'zod';
import type { FlagValues } from '../flags/flag-values.js';
import type { adapterPlaceFlags } from './adapter-flags.js';

/** The configuration of the adapters of a run or a saved model; empty without adapters. */
export interface AdaptedConfiguration {
  /** The low-rank adapters of a GPT. The run trains the adapters and freezes the model's weights. */
  readonly lora?: LoraConfiguration;
}

/** Returns only the adapters of a configuration. */
export const pickAdapters = ({ lora }: AdaptedConfiguration): AdaptedConfiguration =>
  lora === undefined ? {} : { lora };

/** The schema of `AdaptedConfiguration` in checkpoints. */
export const savedAdapters = {
  lora: z
    .looseObject({
      rank: z.int().min(1),
      alpha: z.number().gt(0),
      useRslora: z.boolean(),
      dropout: z.number().min(0).lt(1),
      targets: z.array(z.string()),
    })
    .optional(),
};

/** Returns the directories to which a run writes adapters at its end, keyed by flag. */
export const adapterExports = ({
  saveLora,
}: FlagValues<typeof adapterPlaceFlags>): Readonly<Record<string, string | undefined>> => ({
  'save-lora': saveLora,
});
