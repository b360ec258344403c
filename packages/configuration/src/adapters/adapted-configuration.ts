import type { LoraConfiguration } from '@mtl/formats';
import * as z from 'zod';

/** A run or a saved model with adapters; empty where it has none. */
export interface AdaptedConfiguration {
  /** The adapters of a GPT that are trained in place of its weights. */
  readonly lora?: LoraConfiguration;
}

/** Returns the adapters of a configuration alone. */
export const adaptersOf = ({ lora }: AdaptedConfiguration): AdaptedConfiguration =>
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

/** The directories of adapters of a run. */
export interface AdapterPlaces {
  /** A directory of adapters as PEFT writes them. */
  readonly loadLora?: string;
  readonly saveLora?: string;
}

/** Returns the directories of adapters that a run writes when it ends, by flag. */
export const adapterExports = ({
  saveLora,
}: AdapterPlaces): Readonly<Record<string, string | undefined>> => ({
  'save-lora': saveLora,
});
