import { choice, openToggle, toggle } from './flag-kinds.js';

/**
 * Precisions that Megatron-LM supports for optimizer states but this project does not. Each message names
 * replacements.
 */
const otherDtypes = { fp8: 'states in fp8 are not there: use bf16 or fp16' };

/** The flag `--use-precision-aware-optimizer`, and the flags that need it. */
export const statePrecisionFlags = {
  'use-precision-aware-optimizer': toggle(
    "Lets AdamW's states and master weights take less memory: --exp-avg-dtype, --exp-avg-sq-dtype, --main-grads-dtype, --store-param-remainders. On CPUs.",
  ),
  'exp-avg-dtype': choice(
    ['fp32', 'bf16', 'fp16'],
    "Precision in which Adam's first moment is kept; fp16 has a scale for each parameter.",
    {
      default: 'fp32',
      otherChoices: otherDtypes,
      learning: ({ optimizer }) => optimizer.statePrecision?.expAvgDtype ?? 'fp32',
    },
  ),
  'exp-avg-sq-dtype': choice(
    ['fp32', 'bf16', 'fp16'],
    "Precision in which Adam's second moment is kept; fp16 has a scale for each parameter.",
    {
      default: 'fp32',
      otherChoices: otherDtypes,
      learning: ({ optimizer }) => optimizer.statePrecision?.expAvgSqDtype ?? 'fp32',
    },
  ),
  'main-grads-dtype': choice(
    ['fp32', 'bf16'],
    'Precision in which gradients are kept and reduced over ranks; bf16 is rounded after each micro-batch.',
    { default: 'fp32', learning: ({ optimizer }) => optimizer.statePrecision?.mainGradsDtype ?? 'fp32' },
  ),
  'store-param-remainders': openToggle(
    'Keeps fp32 master weights of a bf16 model as the model weights and the 16 bits that these lack. Default: on with --use-precision-aware-optimizer.',
  ),
};
