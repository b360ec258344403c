import { idle, idleSetting, type MegatronFlag, only, refused } from './megatron-flag.js';

/** Flags about low precision, and about the formats in which numbers are stored. */
const precision: Record<string, MegatronFlag> = {
  ...Object.fromEntries(
    ['main-grads-dtype', 'main-params-dtype', 'exp-avg-dtype', 'exp-avg-sq-dtype'].map((name) => [
      name,
      only(
        ['fp32'],
        'the precision of optimizer state',
        'master weights, gradients and optimizer state are fp32',
      ),
    ]),
  ),
  ...refused('matmuls are computed in fp32, bf16 or fp16', 'use --bf16', {
    fp8: 'training in FP8',
    'fp8-format': 'training in FP8',
    'fp8-recipe': 'training in FP8',
    'fp8-hybrid': 'training in FP8',
    'fp8-e4m3': 'training in FP8',
    'fp8-margin': 'training in FP8',
    'fp8-interval': 'training in FP8',
    'fp8-amax-history-len': 'training in FP8',
    'fp8-amax-compute-algo': 'training in FP8',
    'fp8-param': 'weights in FP8',
    'fp8-param-gather': 'weights in FP8',
    'first-last-layers-bf16': 'training in FP8',
    'num-layers-at-start-in-bf16': 'training in FP8',
    'num-layers-at-end-in-bf16': 'training in FP8',
    'no-fp8-wgrad': 'training in FP8',
    'fp4-format': 'training in FP4',
    'fp4-recipe': 'training in FP4',
    'fp4-param': 'weights in FP4',
  }),
  ...refused('master weights, gradients and optimizer state are fp32', 'leave it out', {
    'use-precision-aware-optimizer': 'optimizer state in lower precision',
    'store-param-remainders': 'master weights as remainders',
  }),
  ...refused('softmax and loss are always computed in fp32', 'leave it out', {
    'fp16-lm-cross-entropy': 'a loss in fp16',
    'no-attention-softmax-in-fp32': 'softmax in lower precision',
  }),
  ...idle('gradients are reduced in fp32, which is more exact', {
    'grad-reduce-in-bf16': 'reduction of gradients in bf16',
  }),
  ...idle('gradients are always summed in fp32', {
    'accumulate-allreduce-grads-in-fp32': 'sums of gradients in fp32',
    'ddp-reduce-scatter-with-fp32-accumulation': 'sums of gradients in fp32',
    'gradient-accumulation-fusion': 'fused sums of gradients',
    'no-gradient-accumulation-fusion': 'unfused sums of gradients',
    'fp32-allreduce': 'reduction of gradients in fp32, in old versions',
  }),
  ...idle('matmuls always sum in fp32', {
    'disable-bf16-reduced-precision-matmul': 'sums of matmuls in fp32',
  }),
  ...idle('scores are computed in fp32, where scaling them and back changes nothing', {
    'apply-query-key-layer-scaling': 'scores scaled by the number of the layer, and back',
    'no-query-key-layer-scaling': 'scores without scaling by the number of the layer',
  }),
  ...idle('softmax is always computed in fp32', {
    'attention-softmax-in-fp32': 'softmax in fp32',
  }),
};

/** Flags that choose the implementation of a part. */
const implementation: Record<string, MegatronFlag> = {
  ...idle('attention never stores its S x S scores, whatever the shape', {
    'use-flash-attn': 'FlashAttention',
    'use-flash-attn-v3': 'FlashAttention 3',
    'use-fused-attn': 'fused attention',
  }),
  ...idle('the kernels here are fused where it pays, and the fused ones have the same results', {
    'no-masked-softmax-fusion': 'unfused softmax',
    'no-bias-gelu-fusion': 'unfused bias and GELU',
    'no-bias-swiglu-fusion': 'unfused SwiGLU',
    'no-bias-dropout-fusion': 'unfused bias and dropout',
    'no-rope-fusion': 'unfused rotary positions',
    'no-persist-layer-norm': 'another layer norm kernel',
    'cross-entropy-loss-fusion': 'a fused loss',
    'use-fused-weighted-squared-relu': 'fused squared ReLU',
    'bias-dropout-fusion': 'fused bias and dropout',
    'bias-gelu-fusion': 'fused bias and GELU',
    'masked-softmax-fusion': 'fused softmax',
    'scaled-masked-softmax-fusion': 'fused softmax, in old versions',
    'scaled-upper-triang-masked-softmax-fusion': 'fused softmax, in old versions',
    'persist-layer-norm': 'another layer norm kernel',
    'rope-fusion': 'fused rotary positions',
  }),
  ...idle('the schedule and the layers decide what overlaps', {
    'async-tensor-model-parallel-allreduce': 'reductions that overlap',
    'no-async-tensor-model-parallel-allreduce': 'reductions that do not overlap',
  }),
  ...idle('the kernels here are the same for every choice of it', {
    'use-te-activation-func': 'another activation kernel',
    'flash-decode': 'a kernel of generation',
  }),
  ...idle('no part is experimental', { 'enable-experimental': 'experimental parts' }),
  ...idle('there is one implementation of the models', {
    'use-mcore-models': "Megatron Core's models",
    'deprecated-use-mcore-models': "Megatron Core's models",
    'use-legacy-models': 'the models before Megatron Core',
  }),
  ...idle('training runs are always bitwise repeatable', {
    'deterministic-mode': 'bitwise repeatable training',
  }),
  ...idle('initial weights depend only on --seed and the position of each value', {
    'use-cpu-initialization': 'initial weights made on the CPU',
    'no-initialization': 'skipped initialisation',
  }),
  ...idleSetting('the kernels here are the same for every choice of it', {
    'attention-backend': 'the kernel of attention',
    'transformer-impl': 'the implementation of blocks',
    'cross-entropy-fusion-impl': 'the kernel of the loss',
  }),
  ...idleSetting('passes are launched as CUDA graphs with --cuda-graphs, and whole ones', {
    'cuda-graph-impl': 'CUDA graphs',
    'cuda-graph-scope': 'CUDA graphs',
    'cuda-graph-warmup-steps': 'CUDA graphs',
  }),
  ...idle('passes are launched as CUDA graphs with --cuda-graphs', {
    'enable-cuda-graph': 'CUDA graphs',
    'external-cuda-graph': 'CUDA graphs',
  }),
  ...idle('random numbers depend only on --seed and the position of each value, in CUDA graphs too', {
    'te-rng-tracker': 'a random state for CUDA graphs',
    'use-te-rng-tracker': 'a random state for CUDA graphs',
  }),
  ...idle('no Python runs, so that no Python objects are collected', {
    'manual-gc': 'garbage collection by hand',
    'no-manual-gc-eval': 'garbage collection by hand',
  }),
  ...idleSetting('no Python runs, so that no Python objects are collected', {
    'manual-gc-interval': 'garbage collection by hand',
  }),
  ...idle('the communication library registers buffers itself', {
    'use-nccl-ub': 'registered communication buffers',
    'disable-symmetric-registration': 'registered communication buffers',
  }),
  ...idle('gradients and parameters stay on the device', {
    'no-pin-cpu-grads': 'pinned memory of gradients',
    'no-pin-cpu-params': 'pinned memory of parameters',
  }),
  ...idle('a rank makes the initial weights of its own shards alone', {
    'init-model-with-meta-device': 'memory during initialisation',
  }),
  ...idle('memory comes from one caching allocator', {
    'deallocate-pipeline-outputs': 'freed outputs of stages',
    'clone-scatter-output-in-embedding': 'memory of the embedding',
    'no-clone-scatter-output-in-embedding': 'memory of the embedding',
  }),
  ...idleSetting('memory comes from one caching allocator', {
    'empty-unused-memory-level': 'returning memory to the device',
  }),
  ...refused('activations stay on the device', 'use --recompute-granularity to save memory', {
    'cpu-offloading': 'activations moved to the host',
    'cpu-offloading-num-layers': 'activations moved to the host',
    'fine-grained-activation-offloading': 'activations moved to the host',
  }),
  ...refused('the flag has another name', 'use --recompute-granularity full', {
    'checkpoint-activations': 'recomputation of layers',
  }),
  ...refused('the flag has another name', 'use --recompute-granularity', {
    'activations-checkpoint-granularity': 'what is recomputed',
  }),
  ...refused('the flag has another name', 'use --recompute-method', {
    'activations-checkpoint-method': 'how layers to recompute are chosen',
  }),
  ...refused('the flag has another name', 'use --recompute-num-layers', {
    'activations-checkpoint-num-layers': 'how many layers are recomputed',
    'checkpoint-num-layers': 'how many layers are recomputed',
  }),
};

/** Megatron-LM's flags about precision, kernels and memory. */
export const megatronKernelFlags: Readonly<Record<string, MegatronFlag>> = {
  ...precision,
  ...implementation,
};
