// Elements of the page.

export const find = (id) => document.getElementById(id);

// A new element with these properties, which holds the children: elements and texts.
export function made(tag, properties = {}, ...children) {
  const one = Object.assign(document.createElement(tag), properties);
  one.append(...children);
  return one;
}
