import { describe, expect, it } from 'vitest';
import { catchError, configure, small } from '../../test/support/configure.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { parseFlags, withLoadedFlags } from './parse-flags.js';
import type { LoadedFlags } from './resolve-flags.js';

const words = (line: string): readonly string[] => line.split(' ').filter((word) => word !== '');

const loaded: LoadedFlags = {
  source: 'Hugging Face directory gpt',
  values: {
    'num-layers': 2,
    'hidden-size': 8,
    'ffn-hidden-size': 24,
    'num-attention-heads': 2,
    'max-position-embeddings': 16,
    'seq-length': 16,
    'hidden-dropout': 0.2,
    gelu: 'erf',
    'tokenizer-type': 'HuggingFaceTokenizer',
    'tokenizer-model': 'gpt/tokenizer.json',
  },
  fixed: ['num-layers', 'hidden-dropout'],
  tokenizer: { type: 'HuggingFaceTokenizer', tokenizerModel: 'gpt/tokenizer.json', eodToken: '<end>' },
  vocabularySize: 99,
};

const withLoaded = (line: string) => withLoadedFlags(parseFlags(words(line)), loaded);

describe('the preset of a command line that names none', () => {
  it.each([
    '',
    '--train-iters 8 --eval-iters 1 --log-interval 4',
    '--bf16 --global-batch-size 16 --micro-batch-size 4 --recompute-activations',
    '--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --device cpu --threads 1',
    '--lr 1e-3 --lr-decay-style constant --weight-decay 0.2 --clip-grad 1 --adam-beta2 0.9',
    '--save a --save-interval 5 --seed 3 --split 9,1,0 --exit-interval 5 --tensorboard-dir a --metrics-jsonl b',
    '--attention-dropout 0.1 --init-method-std 0.01 --make-vocab-size-divisible-by 64',
  ])('is the default preset for %j', (line) => {
    expect(parseFlags(words(line)).preset).toBe('default');
    expect(parseFlags(words(line), { model: 'bert' }).preset).toBe('bert-default');
  });

  it.each([
    ...['--num-layers 2', '--hidden-size 64', '--ffn-hidden-size 9', '--num-attention-heads 4'],
    ...['--seq-length 64', '--max-position-embeddings 64', '--norm-epsilon 1e-6', '--openai-gelu'],
    ...['--untie-embeddings-and-output-weights', '--data-path a', '--load a', '--load-hf a'],
    ...['--tokenizer-type ByteLevelTokenizer', '--vocab-file a --merge-file b', '--vocab-size 9'],
  ])('is none for %s', (line) => {
    expect(parseFlags(words(line)).preset).toBe('none');
    expect(parseFlags([...words(line), '--preset', 'char-10m']).preset).toBe('char-10m');
  });

  it("is none for a BERT's layer norms and head", () => {
    for (const flag of ['--layer-norm-placement=post', '--bert-no-binary-head'])
      expect(parseFlags([flag], { model: 'bert' }).preset).toBe('none');
  });
});

describe('a model of its own', () => {
  it("is trained with Megatron-LM's defaults", () => {
    const { training, optimizer, model, data, logging } = configure(small);
    expect(optimizer).toMatchObject({
      learningRate: { decayStyle: 'linear', minLearningRate: 0, warmupSteps: 0 },
      adamBeta1: 0.9,
      adamBeta2: 0.999,
      adamEpsilon: 1e-8,
      weightDecay: 0.01,
      clipGrad: 1,
    });
    expect(model).toMatchObject({ attentionDropout: 0.1, hiddenDropout: 0.1, initMethodStd: 0.02 });
    expect(training).toMatchObject({
      globalBatchSize: 2,
      evalInterval: 1000,
      evalIterations: 100,
      seed: 1234,
      precision: 'fp32',
    });
    expect([data.split, logging.logInterval]).toEqual(['969,30,1', 100]);
  });

  it('needs what Megatron-LM requires: one error names all of it, and a preset that has it', () => {
    const error = catchError('--num-layers 2');
    expect(error.code).toBe('MTL_FLAG_REQUIRED');
    expect(error.message).toBe(
      '--hidden-size, --num-attention-heads, --seq-length, --max-position-embeddings, --micro-batch-size, ' +
        '--lr, --train-iters (or --train-samples), --data-path and --tokenizer-type are missing',
    );
    const line = /: (--preset .*)$/.exec(error.remedy!)![1]!;
    expect(line).toBe('--preset default --num-layers 2');
    expect(configure(line)).toMatchObject({ model: { numLayers: 2, hiddenSize: 128 }, preset: 'default' });
  });

  it('never trains on the bundled corpus by oversight', () => {
    const error = catchError(small.replace(' --data-path bundled', ''));
    expect(error.message).toBe('--data-path and --tokenizer-type are missing');
    expect(error.expected).toContain('--data-path bundled');
    const without = catchError(`${small.replace('bundled', 'a')}`);
    expect(without.message).toBe('--tokenizer-type is missing');
    expect(without.remedy).toContain('--tokenizer-type GPT2BPETokenizer');
    expect(configure(small).data).toMatchObject({ dataPath: [] });
    expect(
      catchError(`${small} --data-path 0.5 bundled 0.5 a --tokenizer-type ByteLevelTokenizer`).code,
    ).toBe('MTL_DATA_PATH');
  });

  it('keeps its spaces in the suggested line, and loses its --preset none', () => {
    try {
      validateConfiguration(parseFlags(['--preset', 'none', '--save', 'my runs', '--num-layers', '2']));
      expect.unreachable();
    } catch (error) {
      expect((error as { remedy: string }).remedy).toContain(
        "--preset default --save 'my runs' --num-layers 2",
      );
    }
  });

  it('may have a peak learning rate below the lowest one of a preset, which then gives way', () => {
    const configuration = configure('--preset gpt2-4m --lr 1.5e-4 --lr-decay-style constant');
    expect(configuration.optimizer.learningRate.minLearningRate).toBe(0);
    expect(configuration.sources.get('min-lr')).toBe('default (preset gpt2-4m: 0.0002, above --lr)');
    expect(catchError('--lr 1.5e-4 --min-lr 2e-4').code).toBe('MTL_LEARNING_RATE');
  });
});

describe('what --load or --load-hf knows', () => {
  it('lies between preset and file, and says where it comes from', () => {
    const flags = withLoaded('--preset gpt2-4m --load-hf gpt --seq-length 8');
    const from = (name: Parameters<typeof flags.sources.get>[0]) => [
      flags.values[name],
      flags.sources.get(name),
    ];
    expect(from('num-layers')).toEqual([2, loaded.source]);
    expect(from('hidden-dropout')).toEqual([0.2, loaded.source]);
    expect(from('seq-length')).toEqual([8, 'command line']);
    expect(from('lr')).toEqual([2e-3, 'preset gpt2-4m']);
    const { model, data } = validateConfiguration(flags);
    expect(model).toMatchObject({ ffnHiddenSize: 24, geluKind: 'erf', vocabularySize: 99 });
    // the loaded tokenizer is taken unchanged, because the loaded flags contain nothing else about tokenizers
    expect(data.tokenizer).toEqual(loaded.tokenizer);
  });

  it('leaves the rest to be named', () => {
    expect(() => validateConfiguration(withLoaded('--load-hf gpt'))).toThrow(
      /^--micro-batch-size, --lr, --train-iters \(or --train-samples\) and --data-path are missing$/,
    );
  });

  it('gives way to a tokenizer of the command line as a whole', () => {
    const flags = withLoaded('--load-hf gpt --tokenizer-type ByteLevelTokenizer --preset gpt2-4m');
    expect(flags.values['tokenizer-model']).toBeUndefined();
    expect(validateConfiguration(flags).data.tokenizer).toEqual({ type: 'ByteLevelTokenizer' });
  });

  it('refuses what contradicts the model, all at once', () => {
    expect(() => withLoaded('--load-hf gpt --num-layers 2')).not.toThrow();
    expect(() => withLoaded('--load-hf gpt --num-layers 3 --hidden-dropout 0')).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_CONFLICT',
        exitCode: 2,
        message: '--num-layers 3 --hidden-dropout 0 contradicts the Hugging Face directory gpt',
        expected: '--num-layers 2 --hidden-dropout 0.2, which it has',
        remedy: expect.stringContaining('leave --num-layers and --hidden-dropout out') as string,
      }) as Error,
    );
  });
});
