import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ModelKind } from '@mtl/configuration';
import { planning } from '@mtl/planning';
import { runTrainingProgram } from '@mtl/runs';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { filesUnder, temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const inDirectory = (name: string): string => join(directory.path, name);
afterAll(() => directory.dispose());
afterEach(() => vi.restoreAllMocks());

function writeModel(name: string, config: object): void {
  mkdirSync(inDirectory(name));
  writeFileSync(join(inDirectory(name), 'config.json'), JSON.stringify(config));
}

const gemma = {
  model_type: 'gemma',
  hidden_size: 32,
  num_attention_heads: 4,
  num_hidden_layers: 2,
  vocab_size: 99,
  intermediate_size: 64,
  max_position_embeddings: 32,
  hidden_act: 'silu',
  rope_theta: 10_000,
};
const gpt2 = { model_type: 'gpt2', n_embd: 32, n_head: 4, n_layer: 2, n_positions: 32, vocab_size: 99 };
const bert = {
  model_type: 'bert',
  hidden_size: 32,
  num_attention_heads: 4,
  num_hidden_layers: 2,
  vocab_size: 99,
  intermediate_size: 64,
  max_position_embeddings: 32,
};
writeModel('gemma', gemma);
writeModel('llama-with-relu', { ...gemma, model_type: 'llama', hidden_act: 'relu' });
writeModel('llama-with-longrope', {
  ...gemma,
  model_type: 'llama',
  rope_scaling: { rope_type: 'longrope', short_factor: [1], long_factor: [2] },
});
writeModel('gpt2-with-rope', { ...gpt2, rope_scaling: { factor: 2 } });
writeModel('gpt2-with-relu', { ...gpt2, activation_function: 'relu' });
writeModel('bert-with-rope', { ...bert, rope_theta: 10_000 });
writeModel('bert-with-relu', { ...bert, hidden_act: 'relu' });
writeFileSync(inDirectory('text.txt'), 'some text');
mkdirSync(inDirectory('QQP'));
for (const name of ['train', 'dev']) {
  const header = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n';
  writeFileSync(join(inDirectory('QQP'), `${name}.tsv`), `${header}0\t0\t0\ta cat\ta dog\t0\n`);
}

/** The standard error of a command, and its exit status. */
interface Refusal {
  readonly status: number;
  readonly stderr: string;
}

async function train(model: ModelKind, ...argv: string[]): Promise<Refusal> {
  const error = vi.spyOn(console, 'error').mockImplementation(() => {});
  const exit = vi.spyOn(process, 'exit').mockImplementation((() => {}) as typeof process.exit);
  await runTrainingProgram({ model, program: `${model}-train`, description: 'Trains.', argv, planning });
  return { status: Number(exit.mock.calls[0]?.[0]), stderr: error.mock.calls.join('\n') };
}

const gptModels = ['gemma', 'llama-with-relu', 'llama-with-longrope', 'gpt2-with-rope', 'gpt2-with-relu'];
const bertModels = ['gemma', 'bert-with-rope', 'bert-with-relu'];

/** A command on a model directory, and the models that it cannot take. */
const commands: ReadonlyArray<readonly [string, readonly string[], (model: string) => Promise<Refusal>]> = [
  ['gpt-train', gptModels, (model) => train('gpt', '--load-hf', model)],
  ['bert-train', bertModels, (model) => train('bert', '--load-hf', model)],
  [
    'mtl eval',
    gptModels,
    (model) => runMtlHere('eval', '--load-hf', model, '--text', inDirectory('text.txt')),
  ],
  ['mtl generate', gptModels, (model) => runMtlHere('generate', '--load-hf', model, '--prompt', 'a')],
  [
    'mtl convert',
    [...gptModels, ...bertModels.slice(1)],
    (model) => runMtlHere('convert', '--load-hf', model, '--save', inDirectory('out')),
  ],
  [
    'mtl finetune',
    bertModels,
    (model) => runMtlHere('finetune', '--task', 'qqp', '--data-dir', inDirectory('QQP'), '--load-hf', model),
  ],
];

const reasons: Readonly<Record<string, string>> = {
  rope: 'it needs rotary position embeddings',
  // and not what a Llama has too: rope_theta is in its config.json
  gemma:
    'it needs feed-forward layers gated by GELU, scaled embeddings, and norms whose weights are stored less 1; expected',
  longrope:
    'the model needs positions of the rope type "longrope", whose frequencies are others in short texts',
  relu: 'is "relu", which is not supported',
};

describe('a Hugging Face directory of an architecture that is not supported', () => {
  const cases = commands.flatMap(([command, models, run]) =>
    models.map((model) => ({ command, model, run })),
  );
  it.each(cases)('is refused by $command with the reason: $model', async ({ model, run }) => {
    const before = filesUnder(directory.path);
    const { status, stderr } = await run(inDirectory(model));
    expect(stderr).toContain('error[MTL_HUGGING_FACE_CONFIG]');
    expect(stderr).toContain(reasons[model.split('-').at(-1)!]);
    expect(stderr).not.toContain('whole and unchanged');
    expect(stderr.match(/error\[/g)).toHaveLength(1);
    expect(status).toBe(2);
    expect(filesUnder(directory.path)).toEqual(before);
  });
});
