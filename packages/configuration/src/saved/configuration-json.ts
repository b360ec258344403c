import { savedConfigurationFormat } from '../command-line/config-file.js';
import { isDefaultSource } from '../command-line/resolve-flags.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import type { Flags } from '../schema/flag-schema.js';

/** The form of a configuration that is kept with a checkpoint; `--config` reads it again. */
export interface ConfigurationJson {
  readonly format: typeof savedConfigurationFormat;
  readonly version: 1;
  readonly preset: string;
  /** Every flag that has a value, by Megatron-LM's names: enough to make the same configuration again. */
  readonly flags: Flags;
  /** The values that followed from them, for readers; not read back. */
  readonly resolved: Omit<PretrainingConfiguration, 'flags' | 'sources' | 'preset' | 'notices'>;
}

/** Returns plain data for JSON.stringify. */
export function configurationJson(configuration: PretrainingConfiguration): ConfigurationJson {
  const { sources, preset, notices: _notices, ...others } = configuration;
  const { flags: given, ...resolved } = others;
  // a preset need not name them, and saved flags have no preset below them
  const named = { ...given, 'max-position-embeddings': resolved.model.maxPositionEmbeddings };
  // what conversations decided they decide again
  const isDecided = (name: string): boolean =>
    resolved.data.conversations !== undefined &&
    (name === 'eval-interval' || name === 'eval-iters') &&
    isDefaultSource(sources.get(name));
  const flags = Object.fromEntries(Object.entries(named).filter(([name]) => !isDecided(name))) as Flags;
  return { format: savedConfigurationFormat, version: 1, preset, flags, resolved };
}
