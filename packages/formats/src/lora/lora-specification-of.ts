import { ConfigurationError, nearestName } from '@mtl/errors';
import type { GptModelConfiguration, LoraSpecification } from '@mtl/models';
import { checkAdapterDropout } from '@mtl/models/internal';

import type { LoraConfiguration } from './lora-configuration.js';
import { type LoraModule, loraModules } from './lora-modules.js';

/** Stands for every linear layer of the blocks, as in PEFT. */
export const allLinear = 'all-linear';

/**
 * What adapters a configuration asks for in a model. A target is the end of a layer's name, as in PEFT:
 * `c_proj` is that of the attention and that of the feed-forward network, `attn.c_proj` the first.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS for a name that no layer has, naming the nearest; for adapters
 *   of experts with dropout
 */
export function loraSpecificationOf(
  { rank, alpha, useRslora, dropout, targets }: LoraConfiguration,
  model: GptModelConfiguration,
): LoraSpecification {
  const modules = loraModules(model);
  const wanted = new Set(targets.flatMap((name) => modulesOf(name, modules)));
  const specification = {
    rank,
    scale: alpha / (useRslora ? Math.sqrt(rank) : rank),
    dropout,
    // in the order of the model, whatever that of the names
    targets: modules.filter((module) => wanted.has(module)).map(({ target }) => target),
  };
  checkAdapterDropout(specification);
  return specification;
}

function modulesOf(name: string, modules: readonly LoraModule[]): readonly LoraModule[] {
  if (name === allLinear) return modules;
  const found = modules.filter(({ path }) => path === name || path.endsWith(`.${name}`));
  if (found.length > 0) return found;
  const known = [...new Set(modules.map(({ path }) => path.slice(path.lastIndexOf('.') + 1)))];
  const nearest = nearestName(name, [...known, ...modules.map(({ path }) => path), allLinear]);
  throw new ConfigurationError('MTL_LORA_TARGETS', `no linear layer of the model is called ${name}`, {
    expected: `${known.join(', ')}, or ${allLinear}`,
    remedy: nearest === undefined ? `pass ${allLinear} for all of them` : `pass ${nearest}`,
    details: { name, known },
  });
}
