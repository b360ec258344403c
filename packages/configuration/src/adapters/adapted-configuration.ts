import type { LoraConfiguration } from '@mtl/formats';
import * as z from 'zod';
import type { FlagValues } from '../flags/flag-values.js';
import type { adapterPlaceFlags } from './adapter-flags.js';

/** The adapters of a run or of a saved model; empty if it has none. */
export interface AdaptedConfiguration {
  /** The adapters of a GPT that are trained in place of its weights. */
  readonly lora?: LoraConfiguration;
}

/** Returns only the adapters of a configuration. */
export const pickAdapters = ({ lora }: AdaptedConfiguration): AdaptedConfiguration =>
  lora === undefined ? {} : { lora };

/** The schema of `AdaptedConfiguration`, as checkpoints save it. */
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

/** Returns the directories of adapters that a run writes when it ends, by flag. */
export const adapterExports = ({
  saveLora,
}: FlagValues<typeof adapterPlaceFlags>): Readonly<Record<string, string | undefined>> => ({
  'save-lora': saveLora,
});
