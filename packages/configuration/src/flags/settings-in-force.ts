import type { ConversationFiles } from '@mtl/data/conversations';
import type { MuonOptions } from '@mtl/optimizer';

/**
 * The values of a run that are compared when it is resumed, and that are not those of their flags: they
 * follow from several flags, or have no effect. A part of its configuration, which is derived from flags and
 * cannot be named where they are declared.
 */
export interface SettingsInForce {
  readonly model: { readonly sequenceLength: number };
  readonly training: { readonly globalBatchSize: number };
  readonly optimizer: { readonly muon?: Omit<MuonOptions, 'dtype'> | undefined };
  readonly data: {
    readonly dataPath: readonly string[];
    readonly conversations?: ConversationFiles | undefined;
  };
}
