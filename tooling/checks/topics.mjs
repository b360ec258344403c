/**
 * Counts how many source files each feature affects. The features (topics) are read from lists in the
 * packages: strategies, stores, kinds of layers, architecture fields, and model types. For each topic, this
 * program finds the source files that name the topic and do not belong to it. The argument is the folder of a
 * checkout.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { parseSource } from './parse-source.mjs';

const strategiesFile = 'packages/configuration/src/strategies/strategies.ts';
const axesFile = 'packages/layout/src/mesh-axes.ts';
const storesFile = 'packages/optimizer/src/store/create-stores.ts';
const kindsFile = 'packages/models/src/stages/block-kinds.ts';
const fieldsFolder = 'packages/configuration/src/architecture/';
const optionNamesFile = 'packages/configuration/src/flags/option-names.ts';
const modelTypesFile = 'packages/formats/src/huggingface/model-types.ts';

/**
 * The folders and files that belong to each topic, in addition to the file that lists it. They may name the
 * topic freely.
 */
const ownFolders = {
  tensor: ['packages/tensor-parallel/'],
  context: ['packages/context-parallel/'],
  expert: [
    'packages/tensor-parallel/src/dispatch-tokens.ts',
    'packages/tensor-parallel/src/expert-parallel.ts',
  ],
  pipeline: ['packages/pipeline/'],
};

/**
 * Features that no package lists, with the words that name them. Files whose name contains the feature's
 * name, and folders whose name is its `kind`, belong to the feature.
 */
const features = [
  {
    kind: 'feature',
    name: 'lora',
    words: ['lora'],
    isOwn: (path) => /lora[^/]*\.ts$|\/(lora|adapters)\//.test(path),
  },
];

/**
 * Splits a name or a string into words in lower case. For example, `cpCommType` and `cp-comm-type` result in
 * the same three words.
 */
export function splitWords(text) {
  return text
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
    .join(' ');
}

/** Returns the words of all names and strings in a source, without comments. */
export function collectTexts(path, text) {
  const found = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node) || isText(node)) found.add(node.text);
    ts.forEachChild(node, visit);
  };
  visit(parseSource(path, text));
  return [...new Set([...found].map(splitWords))];
}

const isText = (node) =>
  ts.isStringLiteralLike(node) ||
  ts.isTemplateHead(node) ||
  ts.isTemplateMiddle(node) ||
  ts.isTemplateTail(node);

/**
 * Returns a checkout's sources with their names and strings. Tests are left out, because they may name any
 * topic.
 */
export function readSources(root) {
  const patterns = ['packages/*/src/*.ts', 'apps/*/src/*.ts'];
  const { stdout } = spawnSync(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns],
    { cwd: root },
  );
  return stdout
    .toString()
    .trim()
    .split('\n')
    .filter((path) => !path.endsWith('.test.ts'))
    .map((path) => ({ path, texts: collectTexts(path, readFileSync(join(root, path), 'utf8')) }));
}

/** Returns the files outside a topic that name the topic by one of its words. */
export function filesThatName({ words, isOwn }, sources) {
  const phrases = words.map((word) => ` ${word} `);
  const isNamed = (text) => phrases.some((phrase) => ` ${text} `.includes(phrase));
  return sources.filter(({ path, texts }) => !isOwn(path) && texts.some(isNamed)).map(({ path }) => path);
}

/** Returns all topics of a checkout, as `{ kind, name, words, isOwn }`. */
export function readTopics(root) {
  const parse = (path) => parseSource(path, readFileSync(join(root, path), 'utf8'));
  return [
    ...readStrategies(parse),
    ...readStores(parse),
    ...readKinds(parse),
    ...readFields(parse),
    ...readModelTypes(parse),
    ...features,
  ];
}

/** Returns all nodes of a tree for which `is` returns true. */
function collectNodes(root, is) {
  const found = [];
  const visit = (node) => {
    if (is(node)) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(root);
  return found;
}

/** Returns the initial value of a variable, without `as const` and `satisfies`. */
function findInitializer(source, name) {
  const [declaration] = collectNodes(
    source,
    (node) => ts.isVariableDeclaration(node) && node.name.text === name,
  );
  let value = declaration.initializer;
  while (ts.isAsExpression(value) || ts.isSatisfiesExpression(value)) value = value.expression;
  return value;
}

const listKeys = (object) => object.properties.flatMap(({ name }) => (name === undefined ? [] : [name.text]));

/** For each name that a source imports from a relative path, returns the file from which it is imported. */
function listImports(source, path) {
  const entries = collectNodes(source, ts.isImportSpecifier).map((specifier) => {
    const module = specifier.parent.parent.parent.moduleSpecifier.text;
    return [specifier.name.text, join(path, '..', module).replace(/\.js$/, '.ts')];
  });
  return new Map(entries);
}

/** Returns the strategies as topics. Their words are the strategy's name, axes and flags. */
function readStrategies(parse) {
  const list = parse(strategiesFile);
  const files = listImports(list, strategiesFile);
  return findInitializer(list, 'strategies').elements.map(({ text }) => {
    const name = text.replace(/Parallelism$/, '');
    const file = files.get(text);
    const source = parse(file);
    // a flag is a property whose value is a call of a function that makes the flag's schema
    const flags = collectNodes(source, ts.isPropertyAssignment)
      .filter(({ initializer }) => ts.isCallExpression(initializer))
      .map(({ name: key }) => key)
      .filter((key) => ts.isStringLiteral(key) && key.text.includes('-'))
      .map((key) => splitWords(key.text));
    const [axes] = collectNodes(source, (node) => ts.isPropertyAssignment(node) && node.name.text === 'axes');
    const namesOfAxes = collectNodes(
      axes,
      (node) => ts.isPropertyAssignment(node) && node.name.text === 'name',
    );
    return {
      kind: 'strategy',
      name,
      words: [
        ...[`${name} parallel`, `${name} parallelism`],
        ...namesOfAxes.map(({ initializer }) => initializer.text),
        ...new Set(flags),
      ],
      isOwn: (path) =>
        [strategiesFile, axesFile, file].includes(path) ||
        (ownFolders[name] ?? []).some((own) => path.startsWith(own)),
    };
  });
}

/**
 * Returns the stores as topics. A topic's words are the name of the store and its class, which is in a
 * separate file.
 */
function readStores(parse) {
  const list = parse(storesFile);
  const files = listImports(list, storesFile);
  return listKeys(findInitializer(list, 'stores')).map((name) => {
    const file = files.get(name);
    const classes = collectNodes(parse(file), ts.isClassDeclaration).map((declared) => declared.name.text);
    const words = [name, ...classes.filter((each) => each.endsWith('Store'))].map(splitWords);
    const own = [storesFile, file];
    return { kind: 'store', name, words, isOwn: (path) => own.includes(path) };
  });
}

function readKinds(parse) {
  const list = parse(kindsFile);
  const registries = ['KindRegistry', 'AttentionKinds'];
  const isRegistry = (node) => ts.isNewExpression(node) && registries.includes(node.expression.text);
  return collectNodes(list, isRegistry)
    .flatMap(({ arguments: [, kinds] }) => listKeys(kinds))
    .map((name) => ({ kind: 'layer', name, words: [splitWords(name)], isOwn: (path) => path === kindsFile }));
}

/**
 * Returns the fields as topics; their words are the flag and the key in the configuration of a model. The key
 * is stated by the field, or else it is the option of the flag.
 */
function readFields(parse) {
  const renamed = new Map(
    findInitializer(parse(optionNamesFile), 'renamedOptions').properties.map(({ name, initializer }) => [
      splitWords(name.text),
      initializer.text,
    ]),
  );
  const isField = (node) =>
    ts.isPropertyAssignment(node) &&
    ts.isCallExpression(node.initializer) &&
    ts.isVariableDeclaration(node.parent.parent) &&
    /Fields$/.test(node.parent.parent.name.text);
  const findKey = ({ name, initializer }) => {
    const facts = initializer.arguments[1];
    const stated = facts?.properties?.find((property) => property.name?.text === 'key')?.initializer.text;
    const option = name.text.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    return stated ?? renamed.get(splitWords(name.text)) ?? option;
  };
  return ['architecture-fields.ts', 'attention-fields.ts', 'expert-fields.ts'].flatMap((file) =>
    collectNodes(parse(`${fieldsFolder}${file}`), isField).map((field) => {
      const key = findKey(field);
      const words = [...new Set([splitWords(field.name.text), splitWords(key)])];
      return { kind: 'field', name: key, words, isOwn: (path) => path === `${fieldsFolder}${file}` };
    }),
  );
}

const isInFolder = (name, path) =>
  dirname(path)
    .split('/')
    .some((folder) => folder === name || folder.startsWith(`${name}-`));

function readModelTypes(parse) {
  return listKeys(findInitializer(parse(modelTypesFile), 'modelTypes')).map((name) => ({
    kind: 'model type',
    name,
    words: [splitWords(name)],
    // for example, packages/bert-tasks and packages/models/src/bert belong to the topic bert
    isOwn: (path) => path === modelTypesFile || isInFolder(name, path),
  }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [root] = process.argv.slice(2);
  const sources = readSources(root);
  for (const topic of readTopics(root)) {
    console.log(`${topic.kind} ${topic.name}: ${filesThatName(topic, sources).length}`);
  }
}
