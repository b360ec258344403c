import { idle, type MegatronFlag, only, refused } from './megatron-flag.js';

/** Flags about variants of blocks. */
const architecture: Record<string, MegatronFlag> = {
  'no-position-embedding': {
    what: 'a model without learned position embeddings',
    why: 'the default of --position-embedding-type is learned_absolute',
    instead: 'pass --position-embedding-type rope, yarn or none, or leave it out',
    harmlessWith: { flag: 'position-embedding-type', values: ['rope', 'yarn', 'none'] },
    takes: 'nothing',
  },
  'rope-type': only(
    ['rope'],
    'the kind of rotary positions of latent attention',
    '--position-embedding-type says it',
    'leave it out, or pass --position-embedding-type yarn',
  ),
  ...refused(
    'feed-forward layers have GELU, SwiGLU, quick GEGLU or squared ReLU',
    'leave it out, or pass --swiglu, --quick-geglu or --squared-relu',
    { 'onnx-safe': 'a variant of GELU for ONNX' },
  ),
  ...refused(
    'positions are learned embeddings, rope, yarn or none',
    'leave it out; --position-embedding-type chooses one of them',
    {
      'mrope-section': 'rotary positions of several kinds',
      'relative-attention-num-buckets': 'relative positions',
      'relative-attention-max-distance': 'relative positions',
    },
  ),
  ...idle('the weights of norms have no weight decay, so they train the same when stored as they are', {
    'apply-layernorm-1p': 'weights of norms stored less 1',
  }),
  ...refused('residual connections start at the input of a sublayer, before its norm', 'leave it out', {
    'apply-residual-connection-post-layernorm': 'residual connections taken after the layer norm',
  }),
  ...refused('queries and keys have learned norms or none', 'leave it out, or use --qk-layernorm', {
    'qk-l2-norm': 'normalised queries and keys',
    'qk-clip': 'clipping of queries and keys',
  }),
  ...refused('the residual stream has the dtype of the model', 'leave it out', {
    'fp32-residual-connection': 'a residual stream in fp32',
  }),
  ...refused('every layer has softmax attention', 'leave it out', {
    'attention-output-gate': 'gated attention',
    'linear-attention-type': 'linear attention',
    'experimental-attention-variant': 'variants of attention',
  }),
  ...refused('learning rates and initial weights do not depend on the width', 'leave it out', {
    mup: 'maximal update parametrisation',
    'use-mup': 'maximal update parametrisation',
  }),
  ...refused('initial weights are normal, embeddings included', 'use --init-method-std', {
    'embedding-init-method-std': 'another deviation for embeddings',
    'init-method-xavier-uniform': 'Xavier initialisation',
  }),
  ...refused('every layer has attention and a feed-forward network of the same shape', 'leave it out', {
    'heterogeneous-layers-config-path': 'layers of different shapes',
    'hybrid-layer-pattern': 'hybrid models',
    'hybrid-override-pattern': 'hybrid models',
    'hybrid-attention-ratio': 'hybrid models',
    'hybrid-mlp-ratio': 'hybrid models',
    'mamba-state-dim': 'state-space layers',
    'mamba-head-dim': 'state-space layers',
    'mamba-num-groups': 'state-space layers',
    'mamba-num-heads': 'state-space layers',
    'is-hybrid-model': 'hybrid models',
  }),
  ...refused('flags describe the blocks', 'leave it out', {
    spec: 'another specification of blocks',
  }),
  ...refused('a model has one stack of layers', 'use --num-layers', {
    'encoder-num-layers': 'encoder-decoder models',
    'decoder-num-layers': 'encoder-decoder models',
  }),
  ...refused('a model has one stack of layers', 'use --seq-length', {
    'encoder-seq-length': 'encoder-decoder models',
    'decoder-seq-length': 'encoder-decoder models',
  }),
  ...refused('heads have queries, keys and values of one size', 'leave it out', {
    'multi-latent-attention': 'multi-head latent attention',
    'q-lora-rank': 'multi-head latent attention',
    'kv-lora-rank': 'multi-head latent attention',
    'qk-head-dim': 'multi-head latent attention',
    'qk-pos-emb-head-dim': 'multi-head latent attention',
    'v-head-dim': 'multi-head latent attention',
    'cache-mla-latents': 'multi-head latent attention',
  }),
  ...refused('the model predicts one token at a time', 'leave it out', {
    'mtp-num-layers': 'prediction of several tokens',
    'mtp-loss-scaling-factor': 'prediction of several tokens',
  }),
};

/** Megatron-LM's flags about other models. */
export const megatronModelFlags: Readonly<Record<string, MegatronFlag>> = { ...architecture };

/** Flags about the implementation of experts that do not change the results. */
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

/** Flags for features that this project does not have. */
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
  ...refused('the flag has another name', 'use --recompute-granularity full', {
    'moe-layer-recompute': 'recomputation of experts',
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
