// Tables that are sorted by a click on the head of a column; what is shown is sorted, null comes last.
export function sortBy(cell, at, valueOf) {
  const down = cell.getAttribute("aria-sort") === "ascending";
  for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = cell.closest("table").tBodies[0];
  const lines = [...body.rows].sort((a, b) => {
    const [x, y] = [valueOf(a, at), valueOf(b, at)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  });
  body.append(...lines);
}

// the value of a cell that the server has written
function written(line, at) {
  const cell = line.cells[at];
  if (!cell || cell.querySelector(".none")) return null;
  const text = cell.textContent.trim();
  return cell.classList.contains("number") && text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

export function makeSorted(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((cell, at) => {
    if (cell.textContent === "Action") return;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet sort", textContent: cell.textContent });
    cell.replaceChildren(button);
    button.addEventListener("click", () => sortBy(cell, at, written));
  });
}
