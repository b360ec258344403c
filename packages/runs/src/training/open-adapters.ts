import type { PretrainingConfiguration } from '@mtl/configuration';
import { type LoraDirectory, readLoraDirectory } from '@mtl/formats';
import type { GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { checkHuggingFaceTarget } from '@mtl/run-parts/internal';

/** Opens what --load-lora names, and checks before the run that --save-lora can be written after it. */
export async function openAdapters(
  { checkpoint: { loadLora, saveLora }, lora }: Pick<PretrainingConfiguration, 'checkpoint' | 'lora'>,
  model: TransformerConfiguration,
): Promise<LoraDirectory | undefined> {
  if (saveLora !== undefined) checkHuggingFaceTarget(saveLora, 'save-lora');
  if (loadLora === undefined) return undefined;
  // the flags are those of a GPT
  return await readLoraDirectory({ directory: loadLora, model: model as GptModelConfiguration, lora });
}
