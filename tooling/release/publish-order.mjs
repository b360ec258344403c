/**
 * Packages in the order in which they are published: each behind everything of ours that it needs, so that
 * none is installed whose dependencies are not there yet. Platform packages need nothing and come first.
 */
export function publishOrder(manifests) {
  const byName = new Map(manifests.map((manifest) => [manifest.name, manifest]));
  const listNeeds = ({ dependencies = {}, optionalDependencies = {} }) =>
    [...Object.keys(optionalDependencies), ...Object.keys(dependencies)].filter((name) => byName.has(name));
  const ordered = [];
  const open = new Set();
  const visit = (name) => {
    if (ordered.includes(name)) return;
    if (open.has(name)) throw new Error(`${name} needs itself`);
    open.add(name);
    for (const needed of listNeeds(byName.get(name))) visit(needed);
    ordered.push(name);
  };
  const isPlatform = ({ os }) => os !== undefined;
  for (const { name } of [...manifests].sort((one, other) => isPlatform(other) - isPlatform(one)))
    visit(name);
  return ordered;
}
