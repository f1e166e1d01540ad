// Before anything is drawn: the theme that was chosen here last, else the system's.
const chosen = localStorage.getItem("lakelog-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
