import { ConfigurationError } from '@mtl/errors';
import type { LoraSpecification } from '../blocks/lora-specification.js';

/**
 * Refuses dropout of adapters of routed experts: PEFT has none, whose files could not say it.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function checkAdapterDropout({ dropout, targets }: LoraSpecification): void {
  if (dropout === 0 || !targets.some((target) => target === 'expertsFc1' || target === 'expertsFc2')) return;
  throw new ConfigurationError(
    'MTL_LORA_TARGETS',
    `adapters of experts have no dropout, and ${dropout} is asked for`,
    {
      expected: 'a dropout of 0, or layers other than those of experts',
      remedy: 'leave --lora-dropout out, or name the other layers in --lora-targets',
    },
  );
}
