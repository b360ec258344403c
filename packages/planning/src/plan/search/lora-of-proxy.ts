import { gptModelOf, type PretrainingConfiguration } from '@mtl/configuration';
import { type LoraConfiguration, loraModules } from '@mtl/formats';

/**
 * The adapters of a run whose layers are all of one kind, as those of a run with several kinds: targets that
 * the kind does not have are left out. With none left the first layer that may have one gets an adapter,
 * since something must be trained: it is small.
 */
export function loraOfProxy({
  lora,
  model,
}: Pick<PretrainingConfiguration, 'lora' | 'model'>): LoraConfiguration | undefined {
  if (lora === undefined) return undefined;
  // the size of the vocabulary has no part in it
  const paths = loraModules(gptModelOf(model, 1)).map(({ path }) => path);
  const isThere = (target: string): boolean =>
    target === 'all-linear' || paths.some((path) => path === target || path.endsWith(`.${target}`));
  const targets = lora.targets.filter(isThere);
  return { ...lora, targets: targets.length > 0 ? targets : paths.slice(0, 1) };
}
