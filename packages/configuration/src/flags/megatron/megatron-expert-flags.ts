import { idle, type MegatronFlag, only, refused } from './megatron-flag.js';

/** How experts are computed, where the result is the same. */
const implementation: Record<string, MegatronFlag> = {
  ...idle('the experts of a layer are always computed together', {
    'moe-grouped-gemm': 'grouped GEMMs of experts',
    'moe-use-legacy-grouped-gemm': 'grouped GEMMs of experts, in old versions',
  }),
  ...idle('the kernels here are fused where it pays, and the fused ones have the same results', {
    'moe-permute-fusion': 'fused permutation of tokens',
    'moe-router-fusion': 'fused routing',
  }),
  ...idle('shared experts always compute while tokens are sent', {
    'moe-shared-expert-overlap': 'shared experts while tokens are sent',
  }),
  ...idle('rows that would pad an expert have weight 0, and change nothing', {
    'moe-pad-expert-input-to-capacity': 'experts of padded inputs',
  }),
  ...idle('metrics are those of the whole model', {
    'moe-per-layer-logging': 'metrics of each layer',
  }),
  'moe-router-dtype': only(
    ['fp32'],
    'the precision of routing',
    'what the router computes is always in float32',
    'leave it out, or pass fp32',
  ),
};

/** Flags that ask for something that is not here. */
const missing: Record<string, MegatronFlag> = {
  ...refused('the router sees what the experts see', 'leave it out', {
    'moe-input-jitter-eps': 'noise in the input of the router',
  }),
  ...refused('tokens go where the router says', 'leave it out; --moe-aux-loss-coeff balances experts', {
    'moe-router-force-load-balancing': 'experts chosen by chance, for measurements of speed',
    'moe-enable-routing-replay': 'experts chosen as in another run',
  }),
  ...refused('weights of experts multiply what is inside of them', 'leave it out', {
    'moe-apply-probs-on-input': 'weights that multiply the inputs of experts',
  }),
  ...refused('experts have the width of the model as input and output', 'leave it out', {
    'moe-latent-size': 'experts of a narrower input',
  }),
  ...refused('gates and values of an expert are two blocks of rows', 'leave it out', {
    'moe-mlp-glu-interleave-size': 'interleaved rows of experts',
  }),
  'moe-upcycling-granularity': only(
    ['1'],
    'experts that are parts of dense layers',
    'with --moe-use-upcycling each expert is a copy of a whole layer',
    'leave it out, or pass 1',
  ),
  ...refused(
    'tokens go to the processes of their experts by the collectives of --distributed-backend',
    'use --moe-token-dispatcher-type alltoall',
    {
      'moe-flex-dispatcher-backend': 'the flex dispatcher of tokens',
      'moe-enable-deepep': 'the flex dispatcher of tokens',
    },
  ),
  ...refused('micro-batches are computed one after the other', 'leave it out', {
    'overlap-moe-expert-parallel-comm': 'tokens sent while another micro-batch is computed',
  }),
  ...refused('the flag has another name', 'use --recompute-granularity full', {
    'moe-layer-recompute': 'recomputation of experts',
  }),
  ...refused('experts have a flag of their own', 'use --expert-tensor-parallel-size', {
    'moe-extended-tp': 'experts over tensor-parallel ranks',
  }),
  ...refused(
    'groups of experts are not those of processes',
    'use --moe-router-num-groups and --moe-router-group-topk',
    {
      'moe-router-topk-limited-devices': 'tokens of which each goes to few processes',
    },
  ),
  ...refused('matmuls are computed in fp32, bf16 or fp16', 'use --bf16', {
    'moe-router-padding-for-fp8': 'rows that pad experts for FP8',
    'moe-router-padding-for-quantization': 'rows that pad experts for FP8',
  }),
};

/** Megatron-LM's flags about mixtures of experts that are not in the schema. */
export const megatronExpertFlags: Readonly<Record<string, MegatronFlag>> = { ...implementation, ...missing };
