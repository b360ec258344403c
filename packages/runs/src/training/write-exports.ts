import { Checkpoint, type LogicalTensor } from '@mtl/checkpoint';
import type { PretrainingConfiguration } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/data';
import { type HuggingFaceOrigin, mergedWeights, writeLoraDirectory } from '@mtl/formats';
import type { GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { recipeOf } from '@mtl/run-parts/internal';
import { exportedTokenizerFiles, savedWeights } from '@mtl/saved-models/internal';

export interface WriteExportsOptions {
  readonly configuration: PretrainingConfiguration;
  readonly model: TransformerConfiguration;
  readonly tokenizer: Tokenizer;
  /** What the model brought along from a Hugging Face directory. */
  readonly origin: HuggingFaceOrigin | undefined;
  /** The last checkpoint, which has all weights whatever the layout; undefined for a run that saves none. */
  readonly checkpointPath: string | undefined;
  /** The weights of this process, which has all of them where there is no checkpoint. */
  readonly heldWeights: () => readonly LogicalTensor[];
  /** Gets the name of each directory that was written. */
  readonly onMessage: (text: string) => void;
}

/**
 * Writes what a run leaves to other programs: with --save-lora its adapters as PEFT loads them, with
 * --save-hf its weights as a Hugging Face directory, adapters merged, tokenizer included.
 *
 * @throws CheckpointError as `writeLoraDirectory` and the writer of the model's kind
 */
export async function writeExports(options: WriteExportsOptions): Promise<void> {
  const { configuration, tokenizer, origin, checkpointPath, onMessage } = options;
  const { lora, checkpoint } = configuration;
  const { saveLora, saveHuggingFace, loadHuggingFace } = checkpoint;
  if (saveLora === undefined && saveHuggingFace === undefined) return;
  const tensors =
    checkpointPath === undefined
      ? options.heldWeights()
      : savedWeights(await Checkpoint.open(checkpointPath));
  // adapters are those of a GPT
  const model = options.model as GptModelConfiguration;
  if (saveLora !== undefined) {
    // without adapters the flag is refused
    const adapters = { lora: lora!, baseModel: loadHuggingFace };
    await writeLoraDirectory({ ...adapters, directory: saveLora, model, tensors });
    onMessage(`wrote ${saveLora}`);
  }
  if (saveHuggingFace === undefined) return;
  await recipeOf(configuration).saveHuggingFace({
    directory: saveHuggingFace,
    model: options.model,
    tokenizer,
    tensors: lora === undefined ? tensors : mergedWeights(tensors, { model, lora }),
    tokenizerFiles: await exportedTokenizerFiles(tokenizer.options, options.model),
    origin,
  });
  onMessage(`wrote ${saveHuggingFace}`);
}
