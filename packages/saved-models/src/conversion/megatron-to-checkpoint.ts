import { type MegatronModel, readMegatron } from '@mtl/formats';
import { refuseCheckpoints } from '../checkpoints/refuse-checkpoints.js';
import { beginCheckpoint, type TrainedState } from './begin-checkpoint.js';
import type { BegunCheckpoint } from './hugging-face-to-checkpoint.js';

/**
 * Begins a directory of checkpoints with a checkpoint of Megatron-LM: its weights, and the state of AdamW
 * with its iteration where it has that for each weight; else iteration 0, a fresh optimizer.
 *
 * @param options.megatron the directory that Megatron-LM saved to, or the checkpoint of one iteration
 * @param options.step the iteration there. Default: the latest
 * @param options.vocabularySize real tokens. Default: as its args state
 * @param options.loadOptimizer false: only the weights
 * @throws CheckpointError MTL_CHECKPOINT_EXISTS when there are checkpoints already; MTL_MEGATRON_*,
 *   MTL_TORCH_FILE_INVALID
 */
export async function megatronToCheckpoint(options: {
  readonly megatron: string;
  readonly step?: number | undefined;
  readonly vocabularySize?: number | undefined;
  readonly loadOptimizer?: boolean | undefined;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}): Promise<BegunCheckpoint & { readonly source: string }> {
  const { megatron, step, vocabularySize, directory, onNotice, loadOptimizer = true } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const found = await readMegatron({
    directory: megatron,
    step,
    vocabularySize,
    weightsOnly: !loadOptimizer,
  });
  try {
    for (const notice of found.notices) onNotice(notice);
    const { kind, configuration: model, load } = found;
    const path = await beginCheckpoint(directory, {
      kind,
      model,
      load,
      tokenizerOptions: undefined,
      trained: trainedStateOf(found),
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

function trainedStateOf(found: MegatronModel): TrainedState | undefined {
  const { optimizer, iteration, consumedSamples, consumedTokens } = found;
  if (optimizer === undefined) return undefined;
  return {
    progress: { iteration, consumedSamples, consumedTokens },
    optimizerSteps: optimizer.steps,
    loadOptimizer: optimizer.load,
  };
}
