import type { LogicalTensor } from '@mtl/checkpoint';
import type { CheckpointConfiguration, PretrainingConfiguration } from '@mtl/configuration';
import type { AdaptedConfiguration } from '@mtl/configuration/internal';
import type { LayerFactoryOptions, TransformerConfiguration } from '@mtl/models';

/** A directory of adapters that was opened. */
export interface OpenedAdapters {
  readonly directory: string;
  /** Fills adapters, any slices of any of them, by their logical names. */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/** A run with its model, as far as its adapters follow from it. */
export interface AdaptedRun extends AdaptedConfiguration {
  readonly checkpoint: CheckpointConfiguration;
}

/** The adapters that a kind of model may have: small factors that are trained in place of its weights. */
export interface ModelAdapters<Model extends TransformerConfiguration> {
  /** Returns what adapters add to the options of the model's stages; nothing without adapters. */
  layersOf(configuration: AdaptedConfiguration, model: Model): LayerFactoryOptions;
  /** Returns the number of their parameters; undefined where the model itself is trained. */
  numParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /** Returns how many of them a token is multiplied with: it passes only the experts that it is sent to. */
  numActiveParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /**
   * Returns the adapters of a run for layers of fewer kinds than its model has: targets that these do not
   * have are left out.
   */
  amongLayersOf(configuration: Pick<PretrainingConfiguration, 'lora' | 'model'>): AdaptedConfiguration;
  /**
   * Opens the adapters that a run begins with, and checks before it that its own can be written after it.
   *
   * @throws ConfigurationError MTL_HUGGING_FACE_EXISTS; those of the format
   */
  open(run: AdaptedRun, model: Model): Promise<OpenedAdapters | undefined>;
  /** Writes the adapters of a run where it is asked to, and returns where. */
  save(
    run: AdaptedRun,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): Promise<string | undefined>;
  /** Returns weights with what adapters add to them. */
  merged(
    configuration: AdaptedConfiguration,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): readonly LogicalTensor[];
}

/** A kind of model that never has adapters. */
export const noAdapters: ModelAdapters<TransformerConfiguration> = {
  layersOf: () => ({}),
  numParameters: () => undefined,
  numActiveParameters: () => undefined,
  amongLayersOf: () => ({}),
  open: async () => undefined,
  save: async () => undefined,
  merged: (_, { tensors }) => tensors,
};
