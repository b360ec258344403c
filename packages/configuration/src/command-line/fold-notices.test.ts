import { expect, it } from 'vitest';
import { foldNotices } from './fold-notices.js';
import { parseFlags } from './parse-flags.js';

/** Flags in Megatron-LM's example scripts that have no effect in this project. */
const ofMegatron = [
  ...['--use-flash-attn', '--use-mcore-models', '--transformer-impl', 'transformer_engine'],
  ...['--no-masked-softmax-fusion', '--attention-softmax-in-fp32', '--num-workers', '2'],
];

it('folds flags without effect into one line for each reason, and leaves other notices', () => {
  const notices = [
    '--use-flash-attn on the command line has no effect: attention never stores its scores',
    'a split keeps nothing for validation',
    '--overlap-grad-reduce has no effect with one data-parallel rank',
    '--num-workers 2 in run.yaml has no effect: data are mapped',
    '--use-distributed-optimizer has no effect with one data-parallel rank',
  ];
  expect(foldNotices(notices, '--verbose')).toEqual([
    '4 flags have no effect: --use-flash-attn (attention never stores its scores); ' +
      '--overlap-grad-reduce, --use-distributed-optimizer (with one data-parallel rank); ' +
      '--num-workers 2 in run.yaml (data are mapped)',
    'a split keeps nothing for validation',
  ]);
});

it('names where the reasons are when they make the line too long', () => {
  const { notices } = parseFlags(ofMegatron);
  expect(notices).toHaveLength(6);
  expect(foldNotices(notices, '--verbose')).toEqual([
    '6 flags have no effect (--verbose prints why): --use-flash-attn, --use-mcore-models, ' +
      '--transformer-impl transformer_engine, --no-masked-softmax-fusion, --attention-softmax-in-fp32, --num-workers 2',
  ]);
  const [line] = foldNotices(notices);
  expect(line).toContain('--use-flash-attn (attention never stores');
});

it('leaves one notice, or none, as it is', () => {
  const one = ['--sequence-parallel has no effect with --tensor-model-parallel-size 1', 'another'];
  expect(foldNotices(one, '--verbose')).toEqual(one);
  expect(foldNotices([])).toEqual([]);
});
