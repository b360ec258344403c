import type { LogicalTensor } from '@mtl/checkpoint';
import type { CheckpointConfiguration, PretrainingConfiguration } from '@mtl/configuration';
import type { AdaptedConfiguration } from '@mtl/configuration/internal';
import type { LayerFactoryOptions, TransformerConfiguration } from '@mtl/models';

/** An opened directory of adapters. */
export interface OpenedAdapters {
  readonly directory: string;
  /**
   * Fills the given tensors (adapters, or slices of adapters), which are identified by their logical names.
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/** The parts of a run's configuration that concern adapters. */
export interface AdaptedRun extends AdaptedConfiguration {
  readonly checkpoint: CheckpointConfiguration;
}

/** Adapters for models of one kind: small low-rank factors that are trained instead of the weights. */
export interface ModelAdapters<Model extends TransformerConfiguration> {
  /**
   * Returns the options that give the model's stages their adapters. The options are empty without adapters.
   */
  makeLayerOptions(configuration: AdaptedConfiguration, model: Model): LayerFactoryOptions;
  /** Returns the number of adapter parameters; undefined if the model itself is trained. */
  numParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /**
   * Returns the number of adapter parameters that a single token uses. It is smaller than the number of all
   * adapter parameters if the model has experts, because a token passes only through its chosen experts.
   */
  numActiveParameters(configuration: AdaptedConfiguration, model: Model): number | undefined;
  /**
   * Returns the configuration for a model with fewer kinds of layers than the run's model. Targets that match
   * none of these layers are left out.
   */
  selectAmongLayers(configuration: Pick<PretrainingConfiguration, 'lora' | 'model'>): AdaptedConfiguration;
  /**
   * Opens the adapters with which a run begins. Also checks at the start of the run that its own adapters can
   * be written at its end.
   *
   * @throws ConfigurationError MTL_HUGGING_FACE_EXISTS; the errors of the adapters' format
   */
  open(run: AdaptedRun, model: Model): Promise<OpenedAdapters | undefined>;
  /** Writes a run's adapters if the flags request it, and returns their directory; otherwise undefined. */
  save(
    run: AdaptedRun,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): Promise<string | undefined>;
  /** Returns the model's weights with the adapters merged: each weight W becomes `W + scale * B * A`. */
  merged(
    configuration: AdaptedConfiguration,
    trained: { readonly model: Model; readonly tensors: readonly LogicalTensor[] },
  ): readonly LogicalTensor[];
}

/** The adapters for models that do not support adapters. */
export const noAdapters: ModelAdapters<TransformerConfiguration> = {
  makeLayerOptions: () => ({}),
  numParameters: () => undefined,
  numActiveParameters: () => undefined,
  selectAmongLayers: () => ({}),
  open: async () => undefined,
  save: async () => undefined,
  merged: (_, { tensors }) => tensors,
};
