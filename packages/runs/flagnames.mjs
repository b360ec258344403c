const { flagFacts } = await import('/work/wt/parquet/packages/configuration/src/flags/flag-kinds.ts');
const s = await import('/work/wt/parquet/packages/configuration/src/schema/flag-schema.ts');
const all = Object.assign({}, ...s.flagGroups.map((g) => g.flags));
export default Object.entries(all).filter(([, f]) => flagFacts.get(f)?.kind === 'integer').map(([n]) => n);
