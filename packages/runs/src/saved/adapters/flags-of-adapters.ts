import type { LoadedFlags, ResolvedFlags } from '@mtl/configuration';
import { readLoraConfiguration } from '@mtl/formats';

/**
 * Returns the flags of a loaded model and, if --load-lora names adapters, the flags of the adapters.
 *
 * @throws CheckpointError MTL_LORA_DIRECTORY
 */
export async function withAdapters(
  found: LoadedFlags | undefined,
  flags: ResolvedFlags,
): Promise<LoadedFlags | undefined> {
  const { 'load-lora': loadLora } = flags.values;
  if (found === undefined || loadLora === undefined) return found;
  const { rank, alpha, useRslora, dropout, targets } = await readLoraConfiguration(loadLora);
  const adapters = { 'lora-rank': rank, 'lora-alpha': alpha, 'use-rslora': useRslora } as const;
  return {
    ...found,
    source: `${found.source} and adapters ${loadLora}`,
    values: { ...found.values, ...adapters, 'lora-dropout': dropout, 'lora-targets': [...targets] },
    fixed: [...found.fixed, ...(Object.keys(adapters) as (keyof typeof adapters)[])],
  };
}
