import type { LogicalTensor } from '@mtl/checkpoint';
import type { CheckpointConfiguration, PretrainingConfiguration } from '@mtl/configuration';
import type { AdaptedConfiguration } from '@mtl/configuration/internal';
import type { LayerFactoryOptions, TransformerConfiguration } from '@mtl/models';

/** A directory of adapters that was opened. */
export interface OpenedAdapters {
  readonly directory: string;
  /** Fills adapters, or slices of adapters, by their logical names. */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/** A run with the parts of its model that determine the adapters. */
export interface AdaptedRun extends AdaptedConfiguration {
  readonly checkpoint: CheckpointConfiguration;
}

/** The adapters that a kind of model may have: small factors that are trained instead of the weights. */
export interface ModelAdapters<Model extends TransformerConfiguration> {
  /** Returns the options that adapters add to the model's stages; no options without adapters. */
  makeLayerOptions(configuration: AdaptedConfiguration, model: Model): LayerFactoryOptions;
  /** Returns the number of parameters of the adapters; undefined if the model itself is trained. */
  numParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /**
   * Returns the number of adapter parameters that a token is multiplied with: a token passes only its chosen
   * experts.
   */
  numActiveParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /**
   * Returns the adapters of a run for layers of fewer kinds than its model has; targets that these layers do
   * not have are left out.
   */
  selectAmongLayers(configuration: Pick<PretrainingConfiguration, 'lora' | 'model'>): AdaptedConfiguration;
  /**
   * Opens the adapters that a run begins with, and checks before the run that its own adapters can be
   * written.
   *
   * @throws ConfigurationError MTL_HUGGING_FACE_EXISTS; errors of the format
   */
  open(run: AdaptedRun, model: Model): Promise<OpenedAdapters | undefined>;
  /** Writes the adapters of a run if the flags ask for it, and returns the directory. */
  save(
    run: AdaptedRun,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): Promise<string | undefined>;
  /** Returns weights with the products of the adapters added. */
  merged(
    configuration: AdaptedConfiguration,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): readonly LogicalTensor[];
}

/** A kind of model that never has adapters. */
export const noAdapters: ModelAdapters<TransformerConfiguration> = {
  makeLayerOptions: () => ({}),
  numParameters: () => undefined,
  numActiveParameters: () => undefined,
  selectAmongLayers: () => ({}),
  open: async () => undefined,
  save: async () => undefined,
  merged: (_, { tensors }) => tensors,
};
