import { describe, expect, it } from 'vitest';
import { root } from '../bootstrap/bootstrap.mjs';
import { ceilings } from './topic-ceilings.mjs';
import { collectTexts, filesThatName, readSources, readTopics } from './topics.mjs';

/** The maximum number of files in other topics that may name a new topic. */
const ceilingOfNewTopics = 10;

describe('what a topic costs: the source files of other topics that name it', () => {
  const sources = readSources(root);
  const topics = readTopics(root);
  const formatLabel = ({ kind, name }) => `${kind} ${name}`;

  it('knows the topics by the lists in packages', () => {
    const listNames = (kind) => topics.filter((topic) => topic.kind === kind).map(({ name }) => name);
    expect(listNames('strategy')).toEqual(['tensor', 'context', 'pipeline', 'data', 'expert']);
    expect(listNames('store')).toEqual(['replicated', 'zero1', 'zero2', 'fullySharded']);
    expect(listNames('layer')).toEqual(expect.arrayContaining(['rms-norm', 'self-attention', 'swiglu']));
    expect(listNames('field')).toEqual(expect.arrayContaining(['yarnBetaFast', 'qkLayernorm', 'numExperts']));
    expect(listNames('model type')).toEqual(expect.arrayContaining(['gpt2', 'qwen3_moe', 'roformer']));
    const context = topics.find(({ name }) => name === 'context');
    expect(context.words).toEqual(expect.arrayContaining(['cp', 'context parallel', 'cp comm type']));
  });

  it.each(topics.map((topic) => [formatLabel(topic), topic]))('%s', (label, topic) => {
    const files = filesThatName(topic, sources);
    const ceiling = ceilings[label];
    const most = ceiling ?? ceilingOfNewTopics;
    expect(files.length, `more than ${most} files name it:\n${files.join('\n')}`).toBeLessThanOrEqual(most);
    if (ceiling === undefined) return;
    expect(ceiling, 'an entry of topic-ceilings.mjs is for more').toBeGreaterThan(ceilingOfNewTopics);
    expect(ceiling, 'fewer files name it now: lower its entry of topic-ceilings.mjs').toBe(files.length);
  });

  it('has no ceiling for a topic that is gone', () => {
    const labels = topics.map(formatLabel);
    expect(Object.keys(ceilings).filter((label) => !labels.includes(label))).toEqual([]);
  });
});

describe('filesThatName', () => {
  const topic = { words: ['cp', 'context parallel'], isOwn: (path) => path.startsWith('own/') };
  const isNamedIn = (text, path = 'a.ts') =>
    filesThatName(topic, [{ path, texts: collectTexts(path, text) }]).length === 1;

  it.each([
    'const cpHeads = 1;',
    'call({ cp: 2 });',
    'class A { #cpRing = 1; }',
    "name('context-parallel-size');",
    'type A = ContextParallelConfiguration;',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the source of a template
    'const text = `sizes ${size} of context parallelism, or ${cp}`;',
    "import { a } from './context-parallel.js';",
    "const views = ['tp', 'cp'];",
  ])('counts %s', (text) => {
    expect(isNamedIn(text)).toBe(true);
    expect(isNamedIn(text, 'own/a.ts')).toBe(false);
  });

  it.each([
    'const cpu = 1;',
    'copy(context);',
    '// cp and context parallelism',
    'const parallelContext = 1;',
  ])('does not count %s', (text) => {
    expect(isNamedIn(text)).toBe(false);
  });
});
