import { readMegatron } from '@mtl/models';
import { refuseCheckpoints } from '../checkpoints/refuse-checkpoints.js';
import { beginCheckpoint } from './begin-checkpoint.js';
import type { BegunCheckpoint } from './hugging-face-to-checkpoint.js';

/**
 * Begins a directory of checkpoints with the weights of a checkpoint of Megatron-LM: iteration 0, a fresh
 * optimizer.
 *
 * @param options.megatron the directory that Megatron-LM saved to, or the checkpoint of one iteration
 * @param options.step the iteration there. Default: the latest
 * @param options.vocabularySize real tokens. Default: as its args state
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS when there are checkpoints already; MTL_MEGATRON_*,
 *   MTL_TORCH_FILE_INVALID
 */
export async function megatronToCheckpoint(options: {
  readonly megatron: string;
  readonly step?: number | undefined;
  readonly vocabularySize?: number | undefined;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}): Promise<BegunCheckpoint & { readonly source: string }> {
  const { megatron, step, vocabularySize, directory, onNotice } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const found = await readMegatron({ directory: megatron, step, vocabularySize });
  try {
    for (const notice of found.notices) onNotice(notice);
    const { kind, configuration: model, load } = found;
    const path = await beginCheckpoint(directory, {
      kind,
      model,
      load,
      tokenizerOptions: undefined,
      refused: {
        code: 'MTL_MEGATRON_ARGUMENTS',
        remedy: 'convert a model that gpt-train or bert-train can express',
      },
    });
    const own = { tokenizer: undefined, vocabularySize: model.vocabularySize, modelType: undefined };
    return { path, kind, ...own, source: found.path };
  } finally {
    await found.close();
  }
}
